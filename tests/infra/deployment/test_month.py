"""A month of a deployed workload with a posture and an endpoint: its stacks, its keeper as
deployed, the foundation's table.

Each week the steps of the deployed definition call the deployed keeper, with what the gate would
have said; in the end a person approves what was registered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from compilegate.posture.contract import DAY_VARIABLE
from compilegate.posture.records import DynamoRecords, encoded, read_record
from compilegate.posture.state import Observed, Posture, State
from tests.aws_server.client import running_server
from tests.infra.deployment.cdk_cli import Cdk
from tests.infra.deployment.deployed import Deployment
from tests.infra.deployment.functions import call, deliver
from tests.infra.deployment.project import Project
from tests.posture.scenes import day, seen

pytestmark = [pytest.mark.slow, pytest.mark.long]

KEEPER, ENDPOINT = "trial-tiny-keeper", "trial-endpoint-tiny"
CANDIDATE = "candidate"


@dataclass
class Month:
    """The deployment, and the weeks that are played in it."""

    deployment: Deployment
    folder: Path
    subjects: list[str] = field(default_factory=list)

    @property
    def steps(self) -> dict[str, dict[str, Any]]:
        """The Lambda steps of the deployed definition, by name."""
        found: dict[str, dict[str, Any]] = {}

        def gather(steps: list[dict[str, Any]]) -> None:
            for step in steps:
                if step["Type"] == "Lambda":
                    found[step["Name"]] = step
                gather(step.get("Arguments", {}).get("IfSteps", []))

        gather(json.loads(self.deployment.pipeline()["PipelineDefinition"])["Steps"])
        return found

    def step(self, name: str, execution: str, when: float, **given: str) -> dict[str, Any]:
        """Call the function as this step of the definition does."""
        step = self.steps[name]
        assert step["FunctionArn"].endswith(f":function:{KEEPER}")
        texts = {
            key: value if isinstance(value, str) else f"{key} of {execution}"
            for key, value in step["Arguments"].items()
        }
        event = {**texts, "execution": execution, **given}
        return call(self.deployment, KEEPER, event, self.folder, **{DAY_VARIABLE: day(when)})

    def happens(self, source: str, type: str, detail: dict[str, Any], when: float) -> None:
        """What EventBridge hears of, and so whoever has a rule for it."""
        event = {"source": source, "detail-type": type, "detail": detail, "time": day(when)}
        deliver(self.deployment, event, self.folder, **{DAY_VARIABLE: day(when)})

    def told(self) -> list[str]:
        """The subjects that people have got since the last time."""
        sqs = self.deployment.aws.client("sqs")
        url = sqs.create_queue(QueueName="reader")["QueueUrl"]
        found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        for message in found:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [json.loads(message["Body"])["Subject"] for message in found]

    @property
    def state(self) -> State:
        table = self.deployment.outputs("trial-foundation")["PostureTableName"]
        text, _ = DynamoRecords(self.deployment.aws.client("dynamodb"), table).read("tiny")
        assert text is not None
        return read_record(text, "tiny").state


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Month]:
    with running_server() as aws:
        project = Project.make(tmp_path_factory.mktemp("project"))
        project.change(
            '[arms.candidate]\ncompiler = "eager"', '[arms.candidate]\ncompiler = "inductor"'
        )
        project.change(
            "[new_data]", '[posture]\npasses = 2\n\n[serving]\ndeploy = "real-time"\n\n[new_data]'
        )
        cdk = Cdk(project.path, aws)
        cdk.bootstrap()
        cdk.synth()
        cdk.deploy()
        deployment = Deployment(project, aws, cdk)
        topic = deployment.outputs("trial-foundation")["NotificationTopicArn"]
        aws.client("sqs").create_queue(QueueName="reader")
        queue = "arn:aws:sqs:us-east-1:123456789012:reader"
        aws.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)
        yield Month(deployment, tmp_path_factory.mktemp("functions"))


def observed() -> str:
    """What the gate hands to the settling: the candidate passes."""
    what = seen("pass", arm=CANDIDATE)
    return json.dumps(encoded(Observed(seen=(what,), registered=CANDIDATE)))


def test_a_month_of_weekly_executions(month: Month) -> None:
    # In shadow, as with no record: all arms train, and after two passes and a week the candidate.
    for week, posture in ((0, Posture.SHADOW), (1, Posture.ON)):
        execution = f"week-{week}"
        assert month.step("Posture", execution, 7 * week)["arms"] == "all"
        settled = month.step("Settle", execution, 7 * week + 0.1, observed=observed())
        assert settled["arm"] == CANDIDATE
        assert settled["model"] == f"model--{CANDIDATE} of {execution}"
        assert month.state.posture is posture
    again = month.step("Settle", "week-1", 7.2, observed=observed())
    assert again["arm"] == CANDIDATE, "a step that is called again decides nothing twice"
    # From then on it trains alone.
    for week in (2, 3):
        assert month.step("Posture", f"week-{week}", 7 * week)["arms"] == CANDIDATE
        month.step(f"Settle-{CANDIDATE}", f"week-{week}", 7 * week + 0.1, observed=observed())
    (told,) = month.told()
    assert "tiny: posture shadow -> on" in told
    # A candidate that crashes is refused, and the baseline is trained at once.
    aws = month.deployment.aws
    arn = month.deployment.pipeline()["PipelineArn"]
    failed = {
        "StepName": f"Train-{CANDIDATE}-alone",
        "StepStatus": "Failed",
        "FailureReason": "AlgorithmError: ExecuteUserScriptError: no kernel, exit code: 1",
    }
    aws.script(arn.rpartition("/")[2], [{"status": "Failed", "steps": [failed]}])
    sagemaker = aws.client("sagemaker")
    execution = sagemaker.start_pipeline_execution(
        PipelineName=arn, ClientRequestToken=uuid4().hex
    )["PipelineExecutionArn"]
    assert month.step("Posture", execution.rpartition("/")[2], 28)["arms"] == CANDIDATE
    month.happens(
        "aws.sagemaker",
        "SageMaker Model Building Pipeline Execution Status Change",
        {
            "pipelineArn": arn,
            "pipelineExecutionArn": execution,
            "currentPipelineExecutionStatus": "Failed",
        },
        28.1,
    )
    failure, reverted = sorted(month.told(), key=lambda subject: "reverted" in subject)
    assert f"failed at Train-{CANDIDATE}-alone" in failure
    assert "tiny: posture on -> reverted" in reverted
    assert month.state.posture is Posture.REVERTED
    executions = sagemaker.list_pipeline_executions(
        PipelineName=month.deployment.pipeline()["PipelineName"]
    )
    assert len(executions["PipelineExecutionSummaries"]) == 2, "with the one that makes up for it"
    assert month.step("Posture", "rescue", 28.2)["arms"] == "baseline"


def test_an_approval_changes_the_version_of_the_endpoints_stack(month: Month) -> None:
    """As it is deployed: parameters and template are kept, and people hear what answers."""
    aws = month.deployment.aws
    sagemaker = aws.client("sagemaker")
    group = month.deployment.outputs("trial-workload-tiny")["ModelPackageGroupName"]
    package = sagemaker.create_model_package(
        ModelPackageGroupName=group, ModelApprovalStatus="Approved"
    )["ModelPackageArn"]
    month.told()
    assert sagemaker.list_endpoints()["Endpoints"] == []
    month.happens(
        "aws.sagemaker",
        "SageMaker Model Package State Change",
        {
            "ModelPackageGroupName": group,
            "ModelPackageArn": package,
            "ModelPackageVersion": 1,
            "ModelApprovalStatus": "Approved",
        },
        29,
    )
    aws.end_update(ENDPOINT)
    (endpoint,) = sagemaker.list_endpoints()["Endpoints"]
    assert endpoint["EndpointName"] == month.deployment.outputs(ENDPOINT)["EndpointName"]
    (model,) = sagemaker.list_models()["Models"]
    assert model["ModelName"].startswith("trial-tiny--1-")
    (stack,) = aws.client("cloudformation").describe_stacks(StackName=ENDPOINT)["Stacks"]
    month.happens(
        "aws.cloudformation",
        "CloudFormation Stack Status Change",
        {"stack-id": stack["StackId"], "status-details": {"status": "UPDATE_COMPLETE"}},
        29.1,
    )
    (told,) = month.told()
    assert "version 1 answers" in told
