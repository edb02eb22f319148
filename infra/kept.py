"""Lets the next deployment adopt what an earlier one kept (`make adopt`).

CloudFormation adopts the bucket and the repositories by the names that the templates give them. The
key has no name, so the settings must give its ARN. A model package group is adopted by its ARN,
which `cdk import` reads from a file: this program writes one for each workload whose group exists
and whose stack does not.

Exit code 2: the settings or the account do not allow it; standard error says why.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from compilegate.account.errors import AwsError
from compilegate.account.session import AwsSession, open_session
from compilegate.account.settings import SettingsError
from compilegate.infra.project import Project, read_project
from compilegate.pipelines.staging import ImageFolderError
from compilegate.workload import WorkloadError

ASSEMBLY = Path("cdk.out")
"""Where `make synth` puts the templates."""
FILES = Path(".cache", "kept")
"""A file `STACK.json` for each stack to import a group into."""
GROUP = "AWS::SageMaker::ModelPackageGroup"


def main() -> int:
    try:
        project = read_project()
        session = open_session(project.settings.region, project.settings.account)
        _check_key(project, session)
        _write_files(project, session)
    except (
        AwsError,
        BotoCoreError,
        ClientError,
        ImageFolderError,
        SettingsError,
        WorkloadError,
    ) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _check_key(project: Project, session: AwsSession) -> None:
    """Refuse any other key: what the kept bucket holds can only be read with its own."""
    bucket = project.names.bucket(session.account, session.region)
    key = _key_of_bucket(session, bucket)
    named = project.settings.storage.key_arn
    if key not in (None, named) and not _exists(session, project.names.foundation_stack):
        raise SettingsError(
            f"infra/settings.toml: storage.key_arn: found {named or 'none'}, allowed: {key}, "
            "the key of the bucket that was kept"
        )


def _key_of_bucket(session: AwsSession, bucket: str) -> str | None:
    """The key that a bucket is encrypted with; None for no bucket, or for S3's own key."""
    try:
        encryption = session.client("s3").get_bucket_encryption(
            Bucket=bucket, ExpectedBucketOwner=session.account
        )
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchBucket":
            return None
        raise
    (rule,) = encryption["ServerSideEncryptionConfiguration"]["Rules"]
    key: str | None = rule["ApplyServerSideEncryptionByDefault"].get("KMSMasterKeyID")
    return key


def _write_files(project: Project, session: AwsSession) -> None:
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir(parents=True)
    for declared in project.workloads:
        stack = project.names.workload_stack(declared.workload.name)
        arn = _arn_of_group(session, project.names.model_package_group(declared.workload))
        if arn is not None and not _exists(session, stack):
            imported = {_logical_id(stack): {"ModelPackageGroupArn": arn}}
            (FILES / f"{stack}.json").write_text(json.dumps(imported), encoding="utf-8")
            print(f"{stack} adopts {arn}")


def _arn_of_group(session: AwsSession, name: str) -> str | None:
    try:
        described = session.client("sagemaker").describe_model_package_group(
            ModelPackageGroupName=name
        )
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationException":
            return None
        raise
    return str(described["ModelPackageGroupArn"])


def _exists(session: AwsSession, stack: str) -> bool:
    try:
        session.client("cloudformation").describe_stacks(StackName=stack)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":
            return False
        raise
    return True


def _logical_id(stack: str) -> str:
    """The group's logical ID in the stack's template."""
    template = json.loads((ASSEMBLY / f"{stack}.template.json").read_text(encoding="utf-8"))
    (id,) = (id for id, item in template["Resources"].items() if item["Type"] == GROUP)
    return str(id)


if __name__ == "__main__":
    sys.exit(main())
