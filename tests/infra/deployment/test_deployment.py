"""`cdk bootstrap`, `deploy`, `diff`, an update and `destroy`, by the pinned CLI, and what is there
then. The tests read one deployment, in this order: the last ones change and destroy it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from tests.infra.deployment.cdk_cli import COMMAND
from tests.infra.deployment.deployed import Deployment
from tests.infra.deployment.functions import deliver
from tests.infra.deployment.inventory import everything_of_the_project

pytestmark = [pytest.mark.slow, pytest.mark.long]

APPROVED = ("-p", "ModelApprovalStatus=Approved")
STACKS = ("foundation", "images", "workload-tiny", "ci")


def steps_of(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """All steps, those inside of conditions too."""
    found = []
    for step in definition["Steps"]:
        found.append(step)
        for branch in ("IfSteps", "ElseSteps"):
            found += steps_of({"Steps": step.get("Arguments", {}).get(branch, [])})
    return found


def texts_of(value: Any) -> list[str]:
    """Every text in a document."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts_of(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    return [value] if isinstance(value, str) else []


def test_every_stack_is_there_and_deploying_again_changes_nothing(deployment: Deployment) -> None:
    complete = dict.fromkeys((f"trial-{name}" for name in STACKS), "CREATE_COMPLETE")
    assert deployment.stacks() == complete
    assert deployment.cdk.deploy().count("(no changes)") == len(STACKS)
    assert deployment.stacks() == complete


def test_the_images_that_the_workload_uses_are_built_and_no_other(deployment: Deployment) -> None:
    """Every other folder would need a base in this region, a build and a share of the quota."""
    ecr = deployment.aws.client("ecr")
    found = [each["repositoryName"] for each in ecr.describe_repositories()["repositories"]]
    repositories = [name for name in found if name.startswith("trial/")]
    built = {name for name in repositories if ecr.list_images(repositoryName=name)["imageIds"]}
    assert built == {"trial/gate", "trial/training"}
    assert len(repositories) == len(deployment.project.images)


def test_the_definition_names_roles_images_and_a_bucket_that_exist(deployment: Deployment) -> None:
    definition = json.loads(deployment.pipeline()["PipelineDefinition"])
    texts = texts_of(definition)
    assert not [text for text in texts if "${" in text or "stand-in" in text.lower()]

    roles = {role["Arn"] for role in deployment.aws.client("iam").list_roles()["Roles"]}
    steps = steps_of(definition)
    named = {step["Arguments"]["RoleArn"] for step in steps if "RoleArn" in step["Arguments"]}
    assert len(named) == 2
    assert named <= roles
    assert deployment.pipeline()["RoleArn"] in roles - named

    found = deployment.aws.client("ecr").describe_repositories()["repositories"]
    repositories = {repository["repositoryUri"] for repository in found}
    images = {text for text in texts if ".dkr.ecr." in text}
    assert {image.rpartition(":")[0] for image in images} == {
        uri for uri in repositories if uri.endswith(("trial/training", "trial/gate"))
    }

    buckets = {item["Name"] for item in deployment.aws.client("s3").list_buckets()["Buckets"]}
    used = {urlsplit(text).netloc for text in texts if text.startswith("s3://")}
    assert used <= buckets
    assert deployment.outputs("trial-foundation")["BucketName"] in used
    outputs = deployment.outputs("trial-workload-tiny")
    for name in ("TrainingArchiveUri", "TrainingCodeUri", "GateCodeUri", "ExperimentUri"):
        place = urlsplit(outputs[name])
        assert any(outputs[name] in text for text in texts)
        deployment.aws.client("s3").head_object(Bucket=place.netloc, Key=place.path[1:])


def test_what_the_schedule_trains_on_is_there_as_soon_as_the_pipeline_is(
    deployment: Deployment,
) -> None:
    """The default of `Data` is a key of its content, and nobody has called `submit`."""
    data = default_data(deployment)
    assert data == deployment.outputs("trial-workload-tiny")["DataUri"]
    assert files_at(deployment, data) == ["train.csv", "validation.csv"]


def default_data(deployment: Deployment) -> str:
    declared = json.loads(deployment.pipeline()["PipelineDefinition"])["Parameters"]
    (default,) = [item["DefaultValue"] for item in declared if item["Name"] == "Data"]
    return str(default)


def files_at(deployment: Deployment, uri: str) -> list[str]:
    place = urlsplit(uri)
    listed = deployment.aws.client("s3").list_objects_v2(
        Bucket=place.netloc, Prefix=f"{place.path[1:]}/"
    )
    return [item["Key"].rpartition("/")[2] for item in listed.get("Contents", [])]


def test_an_execution_starts_as_the_schedule_starts_it(deployment: Deployment) -> None:
    scheduler, sagemaker = (deployment.aws.client(name) for name in ("scheduler", "sagemaker"))
    name = deployment.outputs("trial-workload-tiny")["ScheduleName"]
    schedule = scheduler.get_schedule(GroupName="trial", Name=name)
    target = schedule["Target"]
    assert target["Arn"] == deployment.pipeline()["PipelineArn"]
    roles = deployment.aws.client("iam").list_roles()["Roles"]
    assert target["RoleArn"] in {role["Arn"] for role in roles}
    queues = deployment.aws.client("sqs").list_queues()["QueueUrls"]
    queue = target["DeadLetterConfig"]["Arn"].rpartition(":")[2]
    assert queue in {url.rpartition("/")[2] for url in queues}
    parameters = target["SageMakerPipelineParameters"]["PipelineParameterList"]
    assert parameters == [{"Name": "ModelApprovalStatus", "Value": "Approved"}]
    declared = json.loads(deployment.pipeline()["PipelineDefinition"])["Parameters"]
    assert {item["Name"] for item in parameters} <= {item["Name"] for item in declared}
    execution = sagemaker.start_pipeline_execution(
        PipelineName=target["Arn"], PipelineParameters=parameters, ClientRequestToken=uuid4().hex
    )["PipelineExecutionArn"]
    listed = sagemaker.list_pipeline_parameters_for_execution(PipelineExecutionArn=execution)
    assert listed["PipelineParameters"] == parameters


def test_a_delivery_of_new_data_starts_an_execution_on_it(
    deployment: Deployment, tmp_path: Path
) -> None:
    aws, sagemaker = deployment.aws, deployment.aws.client("sagemaker")
    name = deployment.pipeline()["PipelineName"]
    for running in sagemaker.list_pipeline_executions(PipelineName=name)[
        "PipelineExecutionSummaries"
    ]:
        if running["PipelineExecutionStatus"] == "Executing":
            sagemaker.stop_pipeline_execution(
                PipelineExecutionArn=running["PipelineExecutionArn"],
                ClientRequestToken=uuid4().hex,
            )
    bucket = deployment.outputs("trial-foundation")["BucketName"]
    keys = [f"incoming/tiny/2026-08-01/{name}.csv" for name in ("train", "validation")]
    for key in keys:
        aws.client("s3").put_object(Bucket=bucket, Key=key, Body=b"text,label\n")
    deliver(
        deployment,
        {
            "source": "aws.s3",
            "detail-type": "Object Created",
            "detail": {"bucket": {"name": bucket}, "object": {"key": keys[1]}},
        },
        tmp_path,
    )
    newest, *_ = sagemaker.list_pipeline_executions(
        PipelineName=deployment.pipeline()["PipelineName"], SortOrder="Descending"
    )["PipelineExecutionSummaries"]
    parameters = sagemaker.list_pipeline_parameters_for_execution(
        PipelineExecutionArn=newest["PipelineExecutionArn"]
    )["PipelineParameters"]
    assert parameters == [{"Name": "Data", "Value": f"s3://{bucket}/incoming/tiny/2026-08-01/"}]


def test_the_deployed_definition_runs_in_the_local_runner(
    deployment: Deployment, tmp_path: Path
) -> None:
    """As it was read back, with what was uploaded for it: it must end with a registered model."""
    definition = tmp_path / "definition.json"
    definition.write_text(deployment.pipeline()["PipelineDefinition"], encoding="utf-8")
    home = tmp_path / "home"
    _copy_buckets(deployment, home / "s3")
    done = subprocess.run(
        [*COMMAND, "pipeline", "run", definition, "--home", home, *APPROVED],
        cwd=deployment.project.path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (package,) = home.glob("registry/*/*.json")
    registered = json.loads(package.read_text(encoding="utf-8"))
    assert registered["ModelPackageGroupName"] == "trial-tiny"
    assert registered["ModelApprovalStatus"] == "Approved"
    assert registered["CustomerMetadataProperties"]["arm"] == "baseline"
    (notice,) = home.glob("s3/**/notice.json")
    assert json.loads(notice.read_text(encoding="utf-8"))["send"] is True


def test_the_plan_of_what_was_deployed_has_no_changes(deployment: Deployment) -> None:
    """Two programs make the definition, the CDK app and the client: it has to be the same one."""
    done = subprocess.run(
        [*COMMAND, "aws", "plan", "tiny", "--format", "json"],
        cwd=deployment.project.path,
        env=deployment.aws.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["pipeline"] == deployment.pipeline()["PipelineName"]
    assert plan["definition"] == "same"


def test_a_changed_workload_is_shown_by_diff_and_then_deployed(deployment: Deployment) -> None:
    deployment.project.change("cron(0 3 ? * MON *)", "rate(7 days)")
    deployment.project.change("margin = 0.45", "margin = 0.4")
    deployment.project.change("Two topics that differ", "Two topics which differ")
    with (deployment.project.path / "workloads" / "train.csv").open("a") as file:
        file.write("ship loan 64,sea\n")
    data = default_data(deployment)
    deployment.cdk.synth()
    shown = deployment.cdk.diff()
    assert "rate(7 days)" in shown
    assert "AWS::SageMaker::Pipeline" in shown
    assert shown.count("There were no differences") == len(STACKS) - 1
    before = deployment.pipeline()["PipelineDefinition"]
    deployment.cdk.deploy()
    assert deployment.stacks()["trial-workload-tiny"] == "UPDATE_COMPLETE"
    after = deployment.pipeline()["PipelineDefinition"]
    experiment = deployment.outputs("trial-workload-tiny")["ExperimentUri"]
    assert experiment in after
    assert experiment not in before
    schedule = deployment.aws.client("scheduler").get_schedule(
        GroupName="trial", Name=deployment.outputs("trial-workload-tiny")["ScheduleName"]
    )
    assert schedule["ScheduleExpression"] == "rate(7 days)"
    assert default_data(deployment) != data
    assert files_at(deployment, default_data(deployment)) == ["train.csv", "validation.csv"]


def test_destroy_leaves_nothing_but_what_the_settings_retain(deployment: Deployment) -> None:
    outputs = deployment.outputs("trial-foundation")
    bucket, table = outputs["BucketName"], outputs["PostureTableName"]
    deployment.cdk.destroy()
    assert deployment.stacks() == {}
    left = everything_of_the_project(deployment.aws)
    assert left == {
        "bucket": [bucket],
        "key": ["Everything that trial keeps"],
        "model package group": ["trial-tiny"],
        "repository": sorted(f"trial/{image}" for image in deployment.project.images),
        "table": [table],
    }


def test_what_was_kept_is_taken_in_again_by_its_key_and_its_arns(deployment: Deployment) -> None:
    """`make adopt` hands the files to `cdk import`, and the rest to CloudFormation by name."""

    def look() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "compilegate.infra.leftovers", "--adopt"],
            cwd=deployment.project.path,
            env=deployment.aws.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    keys = deployment.aws.client("kms")
    described = [
        keys.describe_key(KeyId=key["KeyId"])["KeyMetadata"] for key in keys.list_keys()["Keys"]
    ]
    (kept,) = [key["Arn"] for key in described if key["Description"].endswith("trial keeps")]
    refused = look()
    assert refused.returncode == 2
    assert refused.stderr == (
        f"infra/settings.toml: storage.key_arn is not set, expected {kept}, the key of the bucket "
        "that was kept\n"
    )

    settings = deployment.project.path / "infra" / "settings.toml"
    settings.write_text(f'{settings.read_text()}\n[storage]\nkey_arn = "{kept}"\n')
    found = look()
    assert found.returncode == 0, found.stderr
    (file,) = (deployment.project.path / ".cache" / "kept").iterdir()
    assert file.stem == "trial-workload-tiny"
    deployment.cdk.take_in(file.stem, file)
    asked = deployment.aws.calls("CreateChangeSet")[-1]
    assert (asked["StackName"], asked["ChangeSetType"]) == ("trial-workload-tiny", "IMPORT")
    resource = "ResourcesToImport.member.1"
    assert asked[f"{resource}.ResourceType"] == "AWS::SageMaker::ModelPackageGroup"
    assert asked[f"{resource}.ResourceIdentifier.entry.1.key"] == "ModelPackageGroupArn"
    arn = "arn:aws:sagemaker:us-east-1:123456789012:model-package-group/trial-tiny"
    assert asked[f"{resource}.ResourceIdentifier.entry.1.value"] == arn
    assert not [key for key in asked if key.startswith("ResourcesToImport.member.2")]


def _copy_buckets(deployment: Deployment, folder: Path) -> None:
    """Every object, where the local runner looks for it."""
    s3 = deployment.aws.client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        for item in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", []):
            path = folder / bucket["Name"] / item["Key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(bucket["Name"], item["Key"], str(path))
