"""A month of a deployed workload with a posture: its stacks, its functions as deployed, its table.

Each week the steps of the deployed definition call the deployed function, with what the gate would
have said. What it puts into the table goes to the deployed notifier, by the mapping's own filter:
the stand-in would run a mapped function in Docker, and empties the stream with that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from moto.events.models import EventPattern

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

FUNCTION, NOTIFIER = "trial-tiny-posture", "trial-tiny-notifier"
CANDIDATE = "candidate"


@dataclass
class Month:
    """The deployment, and the weeks that are played in it."""

    deployment: Deployment
    folder: Path
    table: str
    delivered: set[str] = field(default_factory=set)
    subjects: list[str] = field(default_factory=list)

    @property
    def steps(self) -> dict[str, dict[str, Any]]:
        """The Lambda steps of the deployed definition, by name."""
        document = json.loads(self.deployment.pipeline()["PipelineDefinition"])
        found: dict[str, dict[str, Any]] = {}

        def gather(steps: list[dict[str, Any]]) -> None:
            for step in steps:
                if step["Type"] == "Lambda":
                    found[step["Name"]] = step
                gather(step.get("Arguments", {}).get("IfSteps", []))

        gather(document["Steps"])
        return found

    def step(self, name: str, execution: str, when: float, **given: str) -> dict[str, Any]:
        """Call the function as this step of the definition does."""
        step = self.steps[name]
        assert step["FunctionArn"].endswith(f":function:{FUNCTION}")
        texts = {
            key: value if isinstance(value, str) else f"{key} of {execution}"
            for key, value in step["Arguments"].items()
        }
        event = {**texts, "execution": execution, **given}
        return self.call(event, when)

    def call(self, event: dict[str, Any], when: float) -> dict[str, Any]:
        day_of = {DAY_VARIABLE: day(when)}
        answer = call(self.deployment, FUNCTION, event, self.folder, **day_of)
        self.tell()
        return answer

    def tell(self) -> None:
        """Hand the notifier what is new in the table and passes the mapping's filter."""
        items = self.deployment.aws.client("dynamodb").scan(TableName=self.table)["Items"]
        new = [item for item in items if item["part"]["S"] not in self.delivered | {"head"}]
        self.delivered |= {item["part"]["S"] for item in new}
        records = [
            {"eventName": "INSERT", "dynamodb": {"NewImage": item}}
            for item in sorted(new, key=lambda item: item["part"]["S"])
        ]
        batch = [one for one in records if self.mapped.matches_event(one)]
        if batch:
            answer = call(self.deployment, NOTIFIER, {"Records": batch}, self.folder)
            self.subjects += answer["sent"]

    @cached_property
    def mapped(self) -> EventPattern:
        """What of the stream the notifier is called for."""
        client = self.deployment.aws.client("cloudformation")
        template = client.get_template(StackName="trial-workload-tiny")["TemplateBody"]
        (mapping,) = [
            resource["Properties"]
            for resource in template["Resources"].values()
            if resource["Type"] == "AWS::Lambda::EventSourceMapping"
        ]
        (one,) = mapping["FilterCriteria"]["Filters"]
        return EventPattern.load(one["Pattern"])

    @property
    def state(self) -> State:
        records = DynamoRecords(self.deployment.aws.client("dynamodb"), self.table)
        text, _ = records.read("tiny")
        assert text is not None
        return read_record(text, "tiny").state


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Month]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")  # nothing answers there
        yield from _deployed(tmp_path_factory)


def _deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Month]:
    with running_server() as aws:
        project = Project.make(tmp_path_factory.mktemp("project"))
        project.change(
            '[arms.candidate]\ncompiler = "eager"', '[arms.candidate]\ncompiler = "inductor"'
        )
        project.change("[new_data]", "[posture]\npasses = 2\n\n[new_data]")
        cdk = Cdk(project.path, aws)
        cdk.bootstrap()
        cdk.synth()
        cdk.deploy()
        deployment = Deployment(project, aws, cdk)
        table = deployment.outputs("trial-workload-tiny")["PostureTableName"]
        yield Month(deployment, tmp_path_factory.mktemp("functions"), table)


def observed() -> str:
    """What the gate hands to the settling: the candidate passes."""
    what = seen("pass", arm=CANDIDATE)
    return json.dumps(encoded(Observed(seen=(what,), registered=CANDIDATE)))


def test_a_month_of_weekly_executions(month: Month, tmp_path: Path) -> None:
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
    assert month.subjects == ["tiny: posture shadow -> on"]
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
    name = execution.rpartition("/")[2]
    assert month.step("Posture", name, 28)["arms"] == CANDIDATE
    deliver(
        month.deployment,
        {
            "source": "aws.sagemaker",
            "detail-type": "SageMaker Model Building Pipeline Execution Status Change",
            "detail": {
                "pipelineArn": arn,
                "pipelineExecutionArn": execution,
                "currentPipelineExecutionStatus": "Failed",
            },
        },
        tmp_path,
    )
    month.tell()
    assert month.subjects[1:] == ["tiny: posture on -> reverted"]
    assert month.state.posture is Posture.REVERTED
    executions = sagemaker.list_pipeline_executions(
        PipelineName=month.deployment.pipeline()["PipelineName"]
    )
    assert len(executions["PipelineExecutionSummaries"]) == 2, "with the one that makes up for it"
    assert month.step("Posture", "rescue", 28.2)["arms"] == "baseline"
