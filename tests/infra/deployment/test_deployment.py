"""What a destroyed deployment leaves, and how the next one adopts it. That a deployment runs and
changes as `make diff` says, `tests/shipped` and `tests/account_proof` show.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compilegate.account.settings import SETTINGS_FILE
from tests.aws_server.client import running_server
from tests.infra.deployment.deployed import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.long]
STACK = "trial-workload-tiny"
GROUP = "arn:aws:sagemaker:us-east-1:123456789012:model-package-group/trial-tiny"


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    with running_server() as aws:
        made = Deployment.make(tmp_path, aws)
        made.bootstrap()
        made.synth()
        made.deploy()
        yield made


def test_destroy_leaves_what_the_settings_retain_and_adopt_takes_it_in(
    deployment: Deployment,
) -> None:
    """`make adopt` hands the files to `cdk import`, and the rest to CloudFormation by name."""
    outputs, client = deployment.outputs("trial-foundation"), deployment.aws.client
    key = outputs["KeyArn"]
    deployment.cdk("destroy", "--all", "--force")
    assert [name for name in deployment.stacks() if name.startswith("trial-")] == []
    client("s3").head_bucket(Bucket=outputs["BucketName"])
    client("dynamodb").describe_table(TableName=outputs["PostureTableName"])
    client("ecr").describe_repositories(repositoryNames=["trial/training"])
    client("sagemaker").describe_model_package_group(ModelPackageGroupName="trial-tiny")
    assert client("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyState"] == "Enabled"

    look = (sys.executable, "-m", "compilegate.infra.leftovers", "--adopt")
    refused = deployment.attempt(*look)
    assert refused.returncode == 2
    assert refused.stderr == (
        f"infra/settings.toml: storage.key_arn is not set, expected {key}, the key of the bucket "
        "that was kept\n"
    )
    with (deployment.folder / SETTINGS_FILE).open("a") as settings:
        settings.write(f'\n[storage]\nkey_arn = "{key}"\n')
    deployment.run(*look)
    (kept,) = (deployment.folder / ".cache" / "kept").iterdir()
    assert kept.stem == STACK
    deployment.cdk("import", STACK, "--resource-mapping", str(kept))
    request = deployment.aws.calls("CreateChangeSet")[-1]
    assert (request["StackName"], request["ChangeSetType"]) == (STACK, "IMPORT")
    imported = {
        name.partition("member.")[2]: value
        for name, value in request.items()
        if name.startswith("ResourcesToImport.") and not name.endswith("LogicalResourceId")
    }
    assert imported == {
        "1.ResourceType": "AWS::SageMaker::ModelPackageGroup",
        "1.ResourceIdentifier.entry.1.key": "ModelPackageGroupArn",
        "1.ResourceIdentifier.entry.1.value": GROUP,
    }
