"""What AWS does while somebody waits: events reach functions, executions go on, schedules start.

The stand-in for AWS delivers no event by itself, starts no schedule and runs no job. When a proof
waits, it calls `Motion`, and all of that happens that is due: nothing here depends on a clock.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.account_proof.trial import GPU, PROJECTS, SECOND, WORKLOAD
from tests.aws_server.client import ACCOUNT, REGION, AwsServer
from tests.infra.deployment.deployed import Deployment

PIPELINES = [f"{PROJECTS['first']}-{workload}" for workload in (WORKLOAD, SECOND, GPU)]
BUCKET = f"{PROJECTS['first']}-{ACCOUNT}-{REGION}"
GOING = {"status": "Executing"}
START = datetime.now(UTC)


@dataclass
class Motion:
    """The account between two looks."""

    aws: AwsServer
    folder: Path
    """Where the functions' code is unpacked."""
    project: Path
    happened: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for pipeline in PIPELINES:
            self._script(pipeline)

    def __call__(self, _seconds: float) -> None:
        """Let everything happen that is due."""
        for schedule in self.aws.client("scheduler").list_schedules()["Schedules"]:
            named = {key: schedule[key] for key in ("GroupName", "Name")}
            found = self.aws.client("scheduler").get_schedule(**named)
            if self._is_new(found["ScheduleExpression"]):
                self.aws.client("sagemaker").start_pipeline_execution(
                    PipelineName=found["Target"]["Arn"], ClientRequestToken="s" * 32
                )
        for pipeline in self.aws.client("sagemaker").list_pipelines()["PipelineSummaries"]:
            if pipeline["PipelineName"] in PIPELINES:
                self._execute(pipeline["PipelineName"])
        for call in self.aws.calls("S3:PUT"):
            bucket, _, key = unquote(call["path"]).lstrip("/").partition("/")
            if bucket == BUCKET and key.startswith("incoming/") and self._is_new(key):
                detail = {"bucket": {"name": bucket}, "object": {"key": key}}
                self._deliver("aws.s3", "Object Created", detail)
        self._end_updates()
        for number, call in enumerate(self.aws.calls("UpdateModelPackage")):
            if self._is_new(f"decision {number}"):
                group, version = call["ModelPackageArn"].split("/")[1:]
                detail = {
                    "ModelPackageGroupName": group,
                    "ModelPackageVersion": int(version),
                    "ModelPackageArn": call["ModelPackageArn"],
                    "ModelApprovalStatus": call["ModelApprovalStatus"],
                    "UpdatedModelPackageFields": ["ModelApprovalStatus"],
                }
                self._deliver("aws.sagemaker", "SageMaker Model Package State Change", detail)

    def _end_updates(self) -> None:
        """Of the endpoint's stack: an alarm that went off meanwhile takes it back."""
        stacks = self.aws.client("cloudformation").describe_stacks()["Stacks"]
        updated = [s for s in stacks if s["StackStatus"] == "UPDATE_IN_PROGRESS"]
        if not updated:
            return
        (stack,) = updated
        calls = [call for call in self.aws.calls("SetAlarmState") if call["StateValue"] == "ALARM"]
        sounded = [n for n, call in enumerate(calls) if call["AlarmName"].startswith(PIPELINES[0])]
        back = bool(sounded) and self._is_new(f"alarm {sounded[-1]}")
        status = "UPDATE_ROLLBACK_COMPLETE" if back else "UPDATE_COMPLETE"
        self.aws.end_update(stack["StackName"], status, "an alarm went off" if back else "")
        detail = {
            "stack-id": stack["StackId"],
            "status-details": {"status": status, "status-reason": ""},
        }
        self._deliver("aws.cloudformation", "CloudFormation Stack Status Change", detail)

    def _is_new(self, what: str) -> bool:
        new = what not in self.happened
        self.happened.add(what)
        return new

    def _script(self, pipeline: str, *, cached: bool = False) -> None:
        job = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/{pipeline}"
        step = {
            "StepName": "Train-baseline-1",
            "StepStatus": "Succeeded",
            "StartTime": 0,
            "EndTime": 600,
            "Metadata": {"TrainingJob": {"Arn": job}},
        }
        if cached:
            step["CacheHitResult"] = {"SourcePipelineExecutionArn": "arn"}
        self.aws.script(pipeline, [GOING, GOING, {"status": "Succeeded", "steps": [step]}])

    def _execute(self, pipeline: str) -> None:
        """The first execution and the third of `proof` train and register, its second finds all in
        the cache, and later ones go on until they are stopped."""
        listed = self.aws.client("sagemaker").list_pipeline_executions(
            PipelineName=pipeline, SortOrder="Ascending", MaxResults=50
        )["PipelineExecutionSummaries"]
        for number, summary in enumerate(listed, start=1):
            arn, status = summary["PipelineExecutionArn"], summary["PipelineExecutionStatus"]
            if self._is_new(arn):
                detail = {
                    "pipelineArn": arn.partition("/execution/")[0],
                    "pipelineExecutionArn": arn,
                    "currentPipelineExecutionStatus": "Executing",
                }
                kind = "SageMaker Model Building Pipeline Execution Status Change"
                self._deliver("aws.sagemaker", kind, detail)
            if status == "Succeeded" and number != 2 and self._is_new(f"model of {arn}"):
                if number == 1:
                    self._train(pipeline)
                self._register(pipeline)
        if len(listed) == 1:
            self._script(pipeline, cached=True)
        elif len(listed) == 2:
            self._script(pipeline)
        elif listed:
            self.aws.script(pipeline, [GOING])

    def _train(self, pipeline: str) -> None:
        """A job with what the deployed definition says of all jobs."""
        client = self.aws.client("sagemaker")
        text = client.describe_pipeline(PipelineName=pipeline)["PipelineDefinition"]
        definition = json.loads(text)
        values = {each["Name"]: each.get("DefaultValue") for each in definition["Parameters"]}
        given = next(s["Arguments"] for s in definition["Steps"] if s["Type"] == "Training")
        client.create_training_job(
            TrainingJobName=pipeline,
            AlgorithmSpecification={"TrainingImage": "image", "TrainingInputMode": "File"},
            OutputDataConfig={"S3OutputPath": f"s3://{BUCKET}/out"},
            ResourceConfig={
                "InstanceType": values["TrainingInstanceType"],
                "InstanceCount": 1,
                "VolumeSizeInGB": 30,
            },
            StoppingCondition={"MaxRuntimeInSeconds": 3600},
            **{key: given[key] for key in ("RoleArn", "Tags", "VpcConfig") if key in given},
        )

    def _register(self, pipeline: str) -> None:
        """What the last steps of an execution leave."""
        self.aws.client("s3").put_object(Bucket=BUCKET, Key="model.tar.gz", Body=b"model")
        self.aws.client("sagemaker").create_model_package(
            ModelPackageGroupName=pipeline,
            ModelApprovalStatus="PendingManualApproval",
            InferenceSpecification={
                "Containers": [{"Image": "image", "ModelDataUrl": f"s3://{BUCKET}/model.tar.gz"}],
                "SupportedContentTypes": ["application/json"],
                "SupportedResponseMIMETypes": ["application/json"],
            },
            CustomerMetadataProperties={"workload": pipeline, "arm": "baseline"},
        )

    def _deliver(self, source: str, kind: str, detail: dict[str, Any]) -> None:
        """Deliver an event; each is a second later than the one before."""
        time = START + timedelta(seconds=len(self.happened))
        event = {
            "source": source,
            "detail-type": kind,
            "time": f"{time:%Y-%m-%dT%H:%M:%SZ}",
            "detail": detail,
        }
        Deployment(self.project, self.aws).deliver(event, self.folder)
