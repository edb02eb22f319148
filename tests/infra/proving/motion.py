"""What AWS does while somebody waits: events reach functions, executions go on, endpoints end.

The stand-in for AWS delivers no event by itself, starts no schedule and runs no job. A proof that
waits calls `pass_time`, and then all of that happens that was due: nothing here depends on a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from compilegate.infra.proving.folder import PREFIX, PROJECT, WORKLOAD
from tests.aws_server.client import ACCOUNT, REGION, AwsServer
from tests.infra.deployment.cdk_cli import Cdk
from tests.infra.deployment.deployed import Deployment
from tests.infra.deployment.functions import deliver
from tests.infra.deployment.project import Project

PIPELINE = f"{PROJECT}-{WORKLOAD}"
BUCKET = f"{PROJECT}-{ACCOUNT}-{REGION}"
TRAINED = 2
"""So many executions run to their end; later ones go on until they are stopped."""
START, SECOND = datetime.now(UTC), timedelta(seconds=1)
JOB = {
    "StepName": "Train-baseline-1",
    "StepStatus": "Succeeded",
    "StartTime": 0,
    "EndTime": 600,
    "Metadata": {"TrainingJob": {"Arn": f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/x"}},
}
CACHED = {**JOB, "CacheHitResult": {"SourcePipelineExecutionArn": "arn"}}


@dataclass
class Motion:
    """The account between two looks."""

    aws: AwsServer
    folder: Path
    project: Path
    told: set[str] = field(default_factory=set)
    """What happened already."""
    events: int = 0

    def begin(self) -> None:
        """What executions do: they end well, at the third look."""
        self._script(JOB)

    def _script(self, *steps: dict[str, Any]) -> None:
        going = {"status": "Executing"}
        self.aws.script(PIPELINE, [going, going, {"status": "Succeeded", "steps": list(steps)}])

    def pass_time(self, _seconds: float) -> None:
        """Everything that is due."""
        self._schedules()
        self._executions()
        self._deliveries()
        self._decisions()
        self._endpoints()
        self._alarms()

    def _once(self, what: str) -> bool:
        new = what not in self.told
        self.told.add(what)
        return new

    def _deliver(self, source: str, kind: str, detail: dict[str, Any], **more: Any) -> None:
        """Deliver an event; each is a second later than the one before."""
        self.events += 1
        time = f"{START + self.events * SECOND:%Y-%m-%dT%H:%M:%SZ}"
        event = {"source": source, "detail-type": kind, "time": time, "detail": detail, **more}
        deployment = Deployment(Project(self.project), self.aws, Cdk(self.project, self.aws))
        deliver(deployment, event, self.folder)

    def _executions(self) -> None:
        sagemaker = self.aws.client("sagemaker")
        listed = sagemaker.list_pipeline_executions(PipelineName=PIPELINE, MaxResults=50)
        summaries = listed["PipelineExecutionSummaries"][::-1]
        for summary in summaries:
            arn = summary["PipelineExecutionArn"]
            if summary["PipelineExecutionStatus"] == "Executing" and self._once(arn):
                if len([each for each in self.told if each.startswith("arn:")]) <= TRAINED:
                    self._register()
                self._deliver(
                    "aws.sagemaker",
                    "SageMaker Model Building Pipeline Execution Status Change",
                    {
                        "pipelineArn": arn.partition("/execution/")[0],
                        "pipelineExecutionArn": arn,
                        "currentPipelineExecutionStatus": "Executing",
                    },
                )
        if len(summaries) == 1:
            self._script(CACHED)
        if len(summaries) >= TRAINED:
            self.aws.script(PIPELINE, [{"status": "Executing"}])

    def _register(self) -> None:
        """What the last steps of an execution leave."""
        self.aws.client("sagemaker").create_model_package(
            ModelPackageGroupName=PIPELINE,
            ModelApprovalStatus="PendingManualApproval",
            InferenceSpecification={
                "Containers": [{"Image": "image", "ModelDataUrl": f"s3://{BUCKET}/model.tar.gz"}],
                "SupportedContentTypes": ["application/json"],
                "SupportedResponseMIMETypes": ["application/json"],
            },
            CustomerMetadataProperties={"workload": WORKLOAD, "arm": "baseline"},
        )

    def _deliveries(self) -> None:
        for call in self.aws.calls("S3:PUT"):
            bucket, _, key = unquote(call["path"]).lstrip("/").partition("/")
            if bucket == BUCKET and key.startswith(PREFIX) and self._once(key):
                detail = {"bucket": {"name": bucket}, "object": {"key": key}}
                self._deliver("aws.s3", "Object Created", detail)

    def _schedules(self) -> None:
        scheduler = self.aws.client("scheduler")
        for listed in scheduler.list_schedules()["Schedules"]:
            found = scheduler.get_schedule(GroupName=listed["GroupName"], Name=listed["Name"])
            if self._once(found["ScheduleExpression"]):
                self.aws.client("sagemaker").start_pipeline_execution(
                    PipelineName=found["Target"]["Arn"], ClientRequestToken="s" * 32
                )

    def _decisions(self) -> None:
        for number, call in enumerate(self.aws.calls("UpdateModelPackage")):
            if self._once(f"decision {number}"):
                version = int(call["ModelPackageArn"].rpartition("/")[2])
                self._deliver(
                    "aws.sagemaker",
                    "SageMaker Model Package State Change",
                    {
                        "ModelPackageGroupName": PIPELINE,
                        "ModelPackageVersion": version,
                        "ModelApprovalStatus": call["ModelApprovalStatus"],
                        "UpdatedModelPackageFields": ["ModelApprovalStatus"],
                    },
                )

    def _endpoints(self) -> None:
        """They are ready the next time."""
        for endpoint in self.aws.client("sagemaker").list_endpoints()["Endpoints"]:
            name = endpoint["EndpointName"]
            if endpoint["EndpointStatus"] in {"Creating", "Updating"}:
                self.aws.end_deployment(name)
                self._deliver(
                    "aws.sagemaker", "SageMaker Endpoint State Change", {"EndpointName": name}
                )

    def _alarms(self) -> None:
        for number, call in enumerate(self.aws.calls("SetAlarmState")):
            of_endpoint = call["AlarmName"].endswith("-errors")
            if of_endpoint and call["StateValue"] == "ALARM" and self._once(f"alarm {number}"):
                self._deliver(
                    "aws.cloudwatch",
                    "CloudWatch Alarm State Change",
                    {"alarmName": call["AlarmName"], "state": {"value": "ALARM"}},
                    resources=[f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{call['AlarmName']}"],
                )
