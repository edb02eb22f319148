"""What is deployed by the pinned CDK runs, changes as `diff` says, and leaves what is kept.

The tests read one deployment, in this order: the last ones change and destroy it. Deployments as a
whole, with schedules, deliveries, endpoints and promotion, are what `tests/account_proof` plays.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from compilegate.account.settings import SETTINGS_FILE
from tests.infra.deployment.deployed import COMMAND, Deployment

pytestmark = [pytest.mark.slow, pytest.mark.long]
STACK = "trial-workload-tiny"
GROUP = "arn:aws:sagemaker:us-east-1:123456789012:model-package-group/trial-tiny"


def default_data(deployment: Deployment) -> str:
    declared = json.loads(deployment.definition())["Parameters"]
    (default,) = [item["DefaultValue"] for item in declared if item["Name"] == "Data"]
    return str(default)


def test_the_deployed_definition_runs_in_the_local_runner(
    deployment: Deployment, tmp_path: Path
) -> None:
    """As it was read back, with the code and data that were uploaded for it: it must end with a
    registered model."""
    definition, home, s3 = tmp_path / "it.json", tmp_path / "home", deployment.aws.client("s3")
    definition.write_text(deployment.definition(), encoding="utf-8")
    for bucket in (each["Name"] for each in s3.list_buckets()["Buckets"]):
        for item in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
            path = home / "s3" / bucket / item["Key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(bucket, item["Key"], str(path))
    approved = ("-p", "ModelApprovalStatus=Approved")
    deployment.run(*COMMAND, "pipeline", "run", str(definition), "--home", str(home), *approved)
    (package,) = home.glob("registry/*/*.json")
    registered = json.loads(package.read_text(encoding="utf-8"))
    assert registered["ModelPackageGroupName"] == "trial-tiny"
    assert registered["ModelApprovalStatus"] == "Approved"
    assert registered["CustomerMetadataProperties"]["arm"] == "baseline"


def test_a_changed_workload_is_shown_by_diff_and_then_deployed(deployment: Deployment) -> None:
    deployment.change("cron(0 3 ? * MON *)", "rate(7 days)")
    deployment.change("margin = 0.45", "margin = 0.4")
    deployment.change("Two topics that differ", "Two topics which differ")
    with (deployment.folder / "workloads" / "train.csv").open("a") as file:
        file.write("ship loan 64,sea\n")
    data, code = default_data(deployment), deployment.outputs(STACK)["ExperimentUri"]
    deployment.synth()
    # By the templates: moto's change sets take every resource for a new one.
    shown = deployment.cdk("diff", "--method", "template")
    assert "rate(7 days)" in shown
    assert "AWS::SageMaker::Pipeline" in shown
    assert shown.count("There were no differences") == len(("foundation", "images", "ci"))
    deployment.deploy()
    outputs, text = deployment.outputs(STACK), deployment.definition()
    assert deployment.stacks()[STACK]["StackStatus"] == "UPDATE_COMPLETE"
    assert outputs["ExperimentUri"] in text
    assert code not in text
    schedule = deployment.aws.client("scheduler").get_schedule(
        GroupName="trial", Name=outputs["ScheduleName"]
    )
    assert schedule["ScheduleExpression"] == "rate(7 days)"
    assert default_data(deployment) == outputs["DataUri"] != data
    place = urlsplit(outputs["DataUri"])
    found = deployment.aws.client("s3").list_objects_v2(
        Bucket=place.netloc, Prefix=f"{place.path[1:]}/"
    )
    names = [each["Key"].rpartition("/")[2] for each in found["Contents"]]
    assert names == ["train.csv", "validation.csv"], "what the schedule trains on is there"


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
    asked = deployment.aws.calls("CreateChangeSet")[-1]
    assert (asked["StackName"], asked["ChangeSetType"]) == (STACK, "IMPORT")
    imported = {
        name.partition("member.")[2]: value
        for name, value in asked.items()
        if name.startswith("ResourcesToImport.") and not name.endswith("LogicalResourceId")
    }
    assert imported == {
        "1.ResourceType": "AWS::SageMaker::ModelPackageGroup",
        "1.ResourceIdentifier.entry.1.key": "ModelPackageGroupArn",
        "1.ResourceIdentifier.entry.1.value": GROUP,
    }
