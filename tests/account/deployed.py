"""A project as it looks in the account once it is deployed: bucket, stacks, pipeline, registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.aws_server.client import ACCOUNT, REGION, AwsServer
from tests.posture.scenes import TABLE

BUCKET = f"compilegate-{ACCOUNT}-{REGION}"
ASSETS = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
PIPELINE = "compilegate-topics"
GROUP = "compilegate-news"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/compilegate"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0f"
REGISTRY = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/compilegate"
DATA = f"s3://{BUCKET}/compilegate/data/topics/{'0' * 32}"

FOUNDATION = {
    "BucketName": BUCKET,
    "KeyArn": KEY,
    "RepositoryUriTraining": f"{REGISTRY}/training",
    "RepositoryUriTrainingCompiler": f"{REGISTRY}/training-compiler",
    "RepositoryUriNeuron": f"{REGISTRY}/neuron",
    "RepositoryUriGate": f"{REGISTRY}/gate",
    "RepositoryUriXgboost": f"{REGISTRY}/xgboost",
    "PostureTableName": TABLE,
    "NotificationTopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:compilegate-notifications",
}
IMAGES = {
    f"ImageUri{name}": f"{REGISTRY}/{folder}:{'a' * 16}"
    for name, folder in (("Training", "training"), ("Gate", "gate"))
}
WORKLOAD = {
    "PipelineName": PIPELINE,
    "ModelPackageGroupName": GROUP,
    "TrainingArchiveUri": f"s3://{ASSETS}/{'1' * 32}.tgz",
    "TrainingCodeUri": f"s3://{ASSETS}/{'1' * 32}.zip",
    "GateCodeUri": f"s3://{ASSETS}/{'2' * 32}.zip",
    "ExperimentUri": f"s3://{ASSETS}/{'3' * 32}.json",
    "DataUri": DATA,
    "TrainingRoleArn": f"{ROLE}-training",
    "ProcessingRoleArn": f"{ROLE}-processing",
    "PipelineRoleArn": f"{ROLE}-pipeline",
}
DEFINITION = json.dumps(
    {
        "Version": "2020-12-01",
        "Parameters": [
            {"Name": "Data", "Type": "String", "DefaultValue": DATA},
            {
                "Name": "ModelApprovalStatus",
                "Type": "String",
                "DefaultValue": "PendingManualApproval",
                "EnumValues": ["PendingManualApproval", "Approved", "Rejected"],
            },
        ],
        "Steps": [{"Name": "Prepare", "Type": "Processing", "Arguments": {}}],
    }
)


@dataclass(frozen=True)
class Deployed:
    """The server, and what lies in it."""

    server: AwsServer

    def script(self, *frames: dict[str, Any]) -> None:
        """What executions of the pipeline do from now on."""
        self.server.script(PIPELINE, frames)

    def start(self, **options: str) -> str:
        """Start an execution past our own client; returns its ARN."""
        client = self.server.client("sagemaker")
        arn: str = client.start_pipeline_execution(PipelineName=PIPELINE, **options)[
            "PipelineExecutionArn"
        ]
        return arn

    def put_object(self, key: str, content: str) -> None:
        self.server.client("s3").put_object(Bucket=BUCKET, Key=key, Body=content.encode())

    def objects(self, prefix: str) -> list[str]:
        """Keys below a prefix."""
        listed = self.server.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return [entry["Key"] for entry in listed.get("Contents", [])]


def deploy(server: AwsServer, definition: str = DEFINITION) -> Deployed:
    """What `cdk deploy` leaves behind, as far as the client looks at it."""
    server.client("s3").create_bucket(Bucket=BUCKET)
    create_stack(server, "compilegate-foundation", FOUNDATION)
    create_stack(server, "compilegate-images", IMAGES)
    create_stack(server, "compilegate-workload-topics", WORKLOAD)
    sagemaker = server.client("sagemaker")
    sagemaker.create_pipeline(
        PipelineName=PIPELINE, PipelineDefinition=definition, RoleArn=f"{ROLE}-pipeline"
    )
    sagemaker.create_model_package_group(ModelPackageGroupName=GROUP)
    return Deployed(server)


def create_stack(server: AwsServer, name: str, outputs: Mapping[str, str]) -> None:
    """A stack that has these outputs, and one resource because it must have one."""
    template = {
        "Resources": {"Queue": {"Type": "AWS::SQS::Queue"}},
        "Outputs": {key: {"Value": value} for key, value in outputs.items()},
    }
    server.client("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(template))
