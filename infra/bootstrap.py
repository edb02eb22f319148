"""The policies that limit a project's bootstrap: makes them, or says whether they are as they
should be in the account and region that this folder's project goes to.

    cdk bootstrap $(python -m compilegate.infra.bootstrap)
    python -m compilegate.infra.bootstrap --check

The first prints the arguments of the CDK's own command. The second ends with 0 when all is there,
or these credentials are not allowed to look (a CI role never bootstraps); with 1 when the account
was never bootstrapped; with 3 when the settings, or another version of this project, ask for other
policies than are there: standard error names them. Both end with 2 when AWS could not be asked, or
refuses.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from compilegate.access import Arns
from compilegate.access.jobs import PROJECT_TAG
from compilegate.account.bootstrap import LARGEST_MANAGED_POLICY, Document, policies
from compilegate.account.session import AwsSession, open_session
from compilegate.account.settings import SETTINGS_FILE, Names, SettingsError, read_settings
from compilegate.errors import CompilegateError

READY, NEVER, FAILED, OUTDATED = 0, 1, 2, 3
NOT_ALLOWED = ("AccessDenied", "AccessDeniedException")
MOST_VERSIONS = 5
"""Versions that IAM keeps of a policy."""


def main(arguments: list[str]) -> int:
    try:
        settings = read_settings(SETTINGS_FILE)
        session = open_session(settings.region, settings.account)
        if arguments == ["--check"]:
            return check(session, Names(settings))
        print(*make(session, Names(settings)), sep="\n")
    except (BotoCoreError, ClientError, CompilegateError) as error:
        print(f"The policies of the bootstrap cannot be used: {error}", file=sys.stderr)
        return FAILED
    return READY


def check(session: AwsSession, names: Names) -> int:
    """Whether a deployment would find what it needs. An existing bootstrap's policies are the
    concern of whoever made it."""
    try:
        version = f"/cdk-bootstrap/{names.qualifier}/version"
        session.client("ssm").get_parameter(Name=version)
        if names.settings.bootstrap.qualifier is not None:
            return READY
        outdated = [
            name
            for name, document in policies(Arns.of(session), names).items()
            if _policy_there(session, names, name) != document
        ]
    except ClientError as error:
        if error.response["Error"]["Code"] in NOT_ALLOWED:
            return READY
        if error.response["Error"]["Code"] == "ParameterNotFound":
            return NEVER
        raise
    for name in outdated:
        print(
            f"The policy {name} is not what {SETTINGS_FILE} and this version need: run "
            "`make bootstrap` first",
            file=sys.stderr,
        )
    return OUTDATED if outdated else READY


def make(session: AwsSession, names: Names) -> list[str]:
    """Make the project's policies; returns the arguments of `cdk bootstrap`, one a line."""
    if names.settings.bootstrap.qualifier is not None:
        raise SettingsError(
            f"{SETTINGS_FILE}: bootstrap.qualifier names a bootstrap that exists, so this project "
            "makes none; leave the key out for one of the project's own"
        )
    arns, path = Arns.of(session), names.path.removeprefix("/")
    for name, document in policies(arns, names).items():
        _put_policy(session, names, name, document)
    deployment = [arns.policy(f"{path}{name}") for name in names.deployment_policies]
    return [
        f"aws://{session.account}/{session.region}",
        "--qualifier",
        names.qualifier,
        "--toolkit-stack-name",
        names.toolkit_stack,
        "--cloudformation-execution-policies",
        ",".join(deployment),
        "--custom-permissions-boundary",
        f"{path}{names.bootstrap_policy}",
        "--apply-permissions-boundary-to-all-roles",
        "--tags",
        f"{PROJECT_TAG}={names.settings.project}",
    ]


def _put_policy(session: AwsSession, names: Names, name: str, document: Document) -> None:
    """Make a managed policy, or give it a new version if it says something else."""
    text = json.dumps(document, separators=(",", ":"))
    if len(text) > LARGEST_MANAGED_POLICY:
        raise SettingsError(
            f"the policy {name} is {len(text):,} characters, expected at most "
            f"{LARGEST_MANAGED_POLICY:,}: shorten the names in {SETTINGS_FILE}"
        )
    iam = session.client("iam")
    there = _policy_there(session, names, name)
    if there is None:
        iam.create_policy(
            PolicyName=name,
            Path=names.path,
            PolicyDocument=text,
            Tags=[{"Key": PROJECT_TAG, "Value": names.settings.project}],
        )
        return
    if there == document:
        return
    arn = Arns.of(session).policy(f"{names.path.removeprefix('/')}{name}")
    versions = iam.list_policy_versions(PolicyArn=arn)["Versions"]
    if len(versions) == MOST_VERSIONS:
        old = [version for version in versions if not version["IsDefaultVersion"]]
        oldest = min(old, key=lambda version: version["CreateDate"])
        iam.delete_policy_version(PolicyArn=arn, VersionId=oldest["VersionId"])
    iam.create_policy_version(PolicyArn=arn, PolicyDocument=text, SetAsDefault=True)


def _policy_there(session: AwsSession, names: Names, name: str) -> Any:
    """The document of a policy of the project's; None where there is no policy of this name.

    Raises SettingsError for one that somebody else has made: a new version of it would change what
    others may do.
    """
    iam, arn = (
        session.client("iam"),
        Arns.of(session).policy(f"{names.path.removeprefix('/')}{name}"),
    )
    try:
        policy = iam.get_policy(PolicyArn=arn)["Policy"]
    except iam.exceptions.NoSuchEntityException:
        return None
    tags = {tag["Key"]: tag["Value"] for tag in policy.get("Tags", [])}
    if tags.get(PROJECT_TAG) != names.settings.project:
        raise SettingsError(
            f"the policy {name} has the tag {PROJECT_TAG} = {tags.get(PROJECT_TAG, 'none')}, "
            f"expected {names.settings.project}: this project did not make it, and leaves it as it "
            "is; delete it, or choose another project name"
        )
    version = iam.get_policy_version(PolicyArn=arn, VersionId=policy["DefaultVersionId"])
    return version["PolicyVersion"]["Document"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
