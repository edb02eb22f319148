"""Makes the two policies that limit a project's bootstrap, and prints the arguments of the CDK's.

    cdk bootstrap $(python -m compilegate.infra.bootstrap_policies)

Exit code 2: they could not be made; standard error says why.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from compilegate.access import Arns
from compilegate.access.bootstrap import (
    PROJECT_TAG,
    ProjectNames,
    boundary_policy,
    deployment_policy,
)
from compilegate.account.errors import AwsError
from compilegate.account.session import AwsSession, open_session
from compilegate.account.settings import SETTINGS_FILE, Names, SettingsError, read_settings

FAILED = 2
MOST_VERSIONS = 5
"""Versions that IAM keeps of a policy."""


def main() -> int:
    try:
        settings = read_settings(SETTINGS_FILE)
        session = open_session(settings.region, settings.account)
        print(*make(session, Names(settings)), sep="\n")
    except (AwsError, BotoCoreError, ClientError, SettingsError) as error:
        print(f"The policies of the bootstrap could not be made: {error}", file=sys.stderr)
        return FAILED
    return 0


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
    given = _project_names(names, boundary, session)
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
        arns.policy(deployment),
        "--custom-permissions-boundary",
        deployment,
        "--apply-permissions-boundary-to-all-roles",
        "--tags",
        f"{PROJECT_TAG}={names.settings.project}",
    ]


def _project_names(names: Names, boundary: str, session: AwsSession) -> ProjectNames:
    """The names that the policies are limited to."""
    source = names.settings.source
    return ProjectNames(
        project=names.settings.project,
        bucket=names.bucket(session.account, session.region),
        repository_prefix=names.repository("x").removesuffix("/x"),
        key_alias=names.key_alias,
        topic=names.topic,
        schedule_group=names.schedule_group,
        qualifier=names.qualifier,
        boundary=boundary,
        network=names.settings.network.create,
        source=None
        if source is None
        else (
            Arns(partition=session.partition, region=source.region, account=source.account),
            source.project,
            str(names.source_bucket),
        ),
    )


def _put_policy(session: AwsSession, arns: Arns, name: str, document: dict[str, Any]) -> None:
    """Make a managed policy, or give it a new version if it says something else."""
    iam, arn = session.client("iam"), arns.policy(name)
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


if __name__ == "__main__":
    sys.exit(main())
