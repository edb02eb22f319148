"""What the CDK itself needs in the account and region that this folder's project goes to.

    python -m compilegate.infra.bootstrapped         has `make bootstrap` been run there?
    python -m compilegate.infra.bootstrapped make    make the two policies; print what the CLI needs

Exit code 0: yes, or these credentials are not allowed to look (a CI role never bootstraps); or the
policies are made. Exit code 1: no. Exit code 2: AWS could not be asked; standard error says why.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from compilegate.access import Arns
from compilegate.access.bootstrap import ProjectNames, boundary_policy, deployment_policy
from compilegate.account.errors import AwsError
from compilegate.account.session import AwsSession, open_session
from compilegate.account.settings import (
    SETTINGS_FILE,
    Names,
    Settings,
    SettingsError,
    read_settings,
)

YES, NO, UNKNOWN = 0, 1, 2
MAKE = "make"
MOST_VERSIONS = 5
"""Versions that IAM keeps of a policy."""


def main() -> int:
    try:
        settings = read_settings(SETTINGS_FILE)
        session = open_session(settings.region, settings.account)
        if sys.argv[1:] == [MAKE]:
            print(*make(session, Names(settings)), sep="\n")
            return YES
        return _look(session, settings)
    except (AwsError, BotoCoreError, ClientError, SettingsError) as error:
        print(f"Cannot tell whether `cdk bootstrap` has been run: {error}", file=sys.stderr)
        return UNKNOWN


def _look(session: AwsSession, settings: Settings) -> int:
    version = f"/cdk-bootstrap/{Names(settings).qualifier}/version"
    try:
        session.client("ssm").get_parameter(Name=version)
    except ClientError as error:
        match error.response["Error"]["Code"]:
            case "ParameterNotFound":
                return NO
            case "AccessDeniedException":
                return YES
        raise
    return YES


def make(session: AwsSession, names: Names) -> list[str]:
    """Make the project's two policies; returns the arguments of `cdk bootstrap`, one a line."""
    place = f"aws://{session.account}/{session.region}"
    boundary = names.boundary
    if names.settings.bootstrap.qualifier is not None or boundary is None:
        raise SettingsError(
            "infra/settings.toml: bootstrap.qualifier names a bootstrap that exists, so this "
            "project makes none; leave the key out for one of the project's own"
        )
    arns = Arns(partition=session.partition, region=session.region, account=session.account)
    given = project_names(names, boundary, session)
    _put_policy(session, arns, boundary, boundary_policy(arns, given))
    deployment = names.deployment_policy
    _put_policy(session, arns, deployment, deployment_policy(arns, given))
    return [
        place,
        "--qualifier",
        names.qualifier,
        "--toolkit-stack-name",
        names.toolkit_stack,
        "--cloudformation-execution-policies",
        _arn(arns, deployment),
        "--custom-permissions-boundary",
        deployment,
        "--apply-permissions-boundary-to-all-roles",
        "--tags",
        f"compilegate:project={names.settings.project}",
    ]


def project_names(names: Names, boundary: str, session: AwsSession) -> ProjectNames:
    """The names that the policies are limited to."""
    return ProjectNames(
        project=names.settings.project,
        bucket=names.bucket(session.account, session.region),
        repository_prefix=names.repository("x").removesuffix("/x"),
        key_alias=names.key_alias,
        topic=names.topic,
        schedule_group=names.schedule_group,
        qualifier=names.qualifier,
        boundary=boundary,
    )


def _put_policy(session: AwsSession, arns: Arns, name: str, document: dict[str, Any]) -> None:
    """Make a managed policy, or give it a new version if it says something else."""
    iam, arn = session.client("iam"), _arn(arns, name)
    text = json.dumps(document, separators=(",", ":"))
    try:
        iam.create_policy(PolicyName=name, PolicyDocument=text)
        return
    except iam.exceptions.EntityAlreadyExistsException:
        pass
    versions = iam.list_policy_versions(PolicyArn=arn)["Versions"]
    (default,) = (version["VersionId"] for version in versions if version["IsDefaultVersion"])
    there = iam.get_policy_version(PolicyArn=arn, VersionId=default)["PolicyVersion"]["Document"]
    if there == document:
        return
    if len(versions) == MOST_VERSIONS:
        oldest = min(
            (version for version in versions if not version["IsDefaultVersion"]),
            key=lambda version: version["CreateDate"],
        )
        iam.delete_policy_version(PolicyArn=arn, VersionId=oldest["VersionId"])
    iam.create_policy_version(PolicyArn=arn, PolicyDocument=text, SetAsDefault=True)


def _arn(arns: Arns, policy: str) -> str:
    return f"arn:{arns.partition}:iam::{arns.account}:policy/{policy}"


if __name__ == "__main__":
    sys.exit(main())
