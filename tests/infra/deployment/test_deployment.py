"""What is deployed by the pinned CDK runs, changes as `diff` says, and leaves what is kept.

The tests read one deployment, in this order: the last ones change and destroy it. Deployments as a
whole, with schedules, deliveries, endpoints and promotion, are what `tests/account_proof` plays.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from compilegate.account.settings import SETTINGS_FILE
from compilegate.posture.contract import DAY_VARIABLE
from compilegate.posture.records import encoded
from compilegate.posture.state import Observed
from tests.infra.deployment.deployed import COMMAND, Deployment
from tests.posture.scenes import day, seen

pytestmark = [pytest.mark.slow, pytest.mark.long]
STACK, CANDIDATE = "trial-workload-tiny", "candidate"
GROUP = "arn:aws:sagemaker:us-east-1:123456789012:model-package-group/trial-tiny"


def default_data(deployment: Deployment) -> str:
    declared = json.loads(deployment.pipeline("tiny")["PipelineDefinition"])["Parameters"]
    (default,) = [item["DefaultValue"] for item in declared if item["Name"] == "Data"]
    return str(default)


def test_the_deployed_definition_runs_in_the_local_runner(
    deployment: Deployment, tmp_path: Path
) -> None:
    """As it was read back, with the code and data that were uploaded for it: it must end with a
    registered model."""
    definition, home, s3 = tmp_path / "it.json", tmp_path / "home", deployment.aws.client("s3")
    definition.write_text(deployment.pipeline("tiny")["PipelineDefinition"], encoding="utf-8")
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


class Weekly:
    """The workload with a posture: its steps as the deployed definition has them, its keeper."""

    def __init__(self, deployment: Deployment, code: Path) -> None:
        self.deployment, self.aws, self.code = deployment, deployment.aws, code
        self.pipeline = deployment.pipeline("weekly")
        self.steps: dict[str, dict[str, Any]] = {}
        left = json.loads(self.pipeline["PipelineDefinition"])["Steps"]
        while left:
            step = left.pop()
            self.steps[step["Name"]] = step
            left += step.get("Arguments", {}).get("IfSteps", [])
        topic = deployment.outputs("trial-foundation")["NotificationTopicArn"]
        self.queue = self.aws.client("sqs").create_queue(QueueName="reader")["QueueUrl"]
        queue = "arn:aws:sqs:us-east-1:123456789012:reader"
        self.aws.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)

    def step(self, name: str, execution: str, when: float, **given: str) -> Any:
        """Call the function as this step of the definition does."""
        function = self.steps[name]["FunctionArn"].rpartition(":")[2]
        texts = {
            key: value if isinstance(value, str) else f"{key} of {execution}"
            for key, value in self.steps[name]["Arguments"].items()
        }
        event = {**texts, "execution": execution, **given}
        return self.deployment.call(function, event, self.code, **{DAY_VARIABLE: day(when)})

    def settle(self, name: str, execution: str, when: float) -> Any:
        """The same with what the gate hands to it: the candidate passes."""
        observed = Observed(seen=(seen("pass", arm=CANDIDATE),), registered=CANDIDATE)
        return self.step(name, execution, when, observed=json.dumps(encoded(observed)))

    def told(self) -> list[str]:
        """The subjects that people have got since the last time."""
        sqs = self.aws.client("sqs")
        found = sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10)
        for message in found.get("Messages", []):
            sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return sorted(json.loads(each["Body"])["Subject"] for each in found.get("Messages", []))


def test_a_month_of_weekly_executions(deployment: Deployment, tmp_path: Path) -> None:
    month = Weekly(deployment, tmp_path)
    # In shadow, as with no record: all arms train, and after two passes and a week the candidate.
    for week in (0, 1):
        execution = f"week-{week}"
        assert month.step("Posture", execution, 7 * week)["arms"] == "all"
        settled = month.settle("Settle", execution, 7 * week + 0.1)
        assert (settled["arm"], settled["model"]) == (
            CANDIDATE,
            f"model--{CANDIDATE} of {execution}",
        )
    again = month.settle("Settle", "week-1", 7.2)
    assert (again["arm"], again["reason"]) == (CANDIDATE, "week-1 is already settled")
    # From then on it trains alone.
    for week in (2, 3):
        assert month.step("Posture", f"week-{week}", 7 * week)["arms"] == CANDIDATE
        month.settle(f"Settle-{CANDIDATE}", f"week-{week}", 7 * week + 0.1)
    assert month.told() == ["[info] weekly: posture shadow -> on"]
    # A candidate that crashes is refused, and the baseline is trained at once.
    arn = month.pipeline["PipelineArn"]
    failed = {
        "StepName": f"Train-{CANDIDATE}-alone",
        "StepStatus": "Failed",
        "FailureReason": "AlgorithmError: ExecuteUserScriptError: no kernel, exit code: 1",
    }
    month.aws.script("trial-weekly", [{"status": "Failed", "steps": [failed]}])
    sagemaker = month.aws.client("sagemaker")
    execution = sagemaker.start_pipeline_execution(
        PipelineName=arn, ClientRequestToken=uuid4().hex
    )["PipelineExecutionArn"]
    assert month.step("Posture", execution.rpartition("/")[2], 28)["arms"] == CANDIDATE
    event = {
        "source": "aws.sagemaker",
        "detail-type": "SageMaker Model Building Pipeline Execution Status Change",
        "detail": {
            "pipelineArn": arn,
            "pipelineExecutionArn": execution,
            "currentPipelineExecutionStatus": "Failed",
        },
    }
    deployment.deliver(event, tmp_path, **{DAY_VARIABLE: day(28.1)})
    failure, reverted = month.told()
    assert failure.endswith(f"failed at Train-{CANDIDATE}-alone")
    assert reverted == "[action needed] weekly: posture on -> reverted"
    listed = sagemaker.list_pipeline_executions(PipelineName="trial-weekly")
    assert len(listed["PipelineExecutionSummaries"]) == 2, "with the one that makes up for it"
    assert month.step("Posture", "rescue", 28.2)["arms"] == "baseline"


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
    outputs, text = deployment.outputs(STACK), deployment.pipeline("tiny")["PipelineDefinition"]
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
    kept = deployment.folder / ".cache" / "kept"
    assert {file.stem for file in kept.iterdir()} == {STACK, "trial-workload-weekly"}
    deployment.cdk("import", STACK, "--resource-mapping", str(kept / f"{STACK}.json"))
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
