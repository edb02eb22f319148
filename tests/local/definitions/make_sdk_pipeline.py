"""Makes `sdk_pipeline.json` with the real SageMaker Python SDK (v3), without an AWS call.

    AWS_DEFAULT_REGION=eu-west-1 python tests/local/definitions/make_sdk_pipeline.py

The JSON file is kept, so that the tests of the local runner need no SDK and no network; run this
again when the SDK changes what it emits. Every kind of expression, condition, dependency and step
that the runner knows is in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
from sagemaker.core.workflow.conditions import (
    ConditionEquals,
    ConditionGreaterThan,
    ConditionGreaterThanOrEqualTo,
    ConditionIn,
    ConditionLessThan,
    ConditionLessThanOrEqualTo,
    ConditionNot,
    ConditionOr,
)
from sagemaker.core.workflow.execution_variables import ExecutionVariables
from sagemaker.core.workflow.functions import Join, JsonGet
from sagemaker.core.workflow.parameters import (
    ParameterBoolean,
    ParameterFloat,
    ParameterInteger,
    ParameterString,
)
from sagemaker.core.workflow.pipeline_context import PipelineSession
from sagemaker.core.workflow.properties import Properties, PropertyFile
from sagemaker.mlops.workflow.condition_step import ConditionStep
from sagemaker.mlops.workflow.fail_step import FailStep
from sagemaker.mlops.workflow.pipeline import Pipeline
from sagemaker.mlops.workflow.retry import (
    SageMakerJobExceptionTypeEnum,
    SageMakerJobStepRetryPolicy,
    StepExceptionTypeEnum,
    StepRetryPolicy,
)
from sagemaker.mlops.workflow.step_dependency import StepDependency, TriggerCondition
from sagemaker.mlops.workflow.steps import CacheConfig, ConfigurableRetryStep, StepTypeEnum

ROLE = "arn:aws:iam::111122223333:role/execution"
IMAGE = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/example:1"

SHAPES = {
    StepTypeEnum.TRAINING: "DescribeTrainingJobResponse",
    StepTypeEnum.PROCESSING: "DescribeProcessingJobResponse",
    StepTypeEnum.REGISTER_MODEL: "DescribeModelPackageOutput",
}


class RequestStep(ConfigurableRetryStep):
    """A step that holds the plain API request."""

    def __init__(
        self,
        name: str,
        kind: StepTypeEnum,
        request: dict[str, Any],
        *,
        cache: bool = False,
        property_files: tuple[PropertyFile, ...] = (),
        **options: Any,
    ) -> None:
        super().__init__(name, kind, **options)
        self.step_args = None
        self._request = request
        self._cache = CacheConfig(enable_caching=True, expire_after="30d") if cache else None
        self._property_files = property_files
        self._properties = Properties(step_name=name, step=self, shape_name=SHAPES[kind])

    @property
    def arguments(self) -> dict[str, Any]:
        return self._request

    @property
    def properties(self) -> Properties:
        return self._properties

    def to_request(self) -> dict[str, Any]:
        request: dict[str, Any] = super().to_request()
        if self._cache is not None:
            request.update(self._cache.config)
        if self._property_files:
            request["PropertyFiles"] = [file.expr for file in self._property_files]
        return request


def processing(
    name: str, arguments: list[Any], inputs: dict[str, Any], **options: Any
) -> RequestStep:
    """A Processing step that runs `job.py` of its code input."""
    output = Join(on="/", values=["s3://bucket", ExecutionVariables.PIPELINE_EXECUTION_ID, name])
    request = {
        "AppSpecification": {
            "ImageUri": IMAGE,
            "ContainerEntrypoint": ["python3", "/opt/ml/processing/code/job.py"],
            "ContainerArguments": arguments,
        },
        "ProcessingInputs": [
            {
                "InputName": key,
                "S3Input": {
                    "S3Uri": uri,
                    "LocalPath": f"/opt/ml/processing/{key}",
                    "S3DataType": "S3Prefix",
                    "S3InputMode": "File",
                },
            }
            for key, uri in {"code": "s3://bucket/code/job.py", **inputs}.items()
        ],
        "ProcessingOutputConfig": {
            "Outputs": [
                {
                    "OutputName": "out",
                    "S3Output": {
                        "S3Uri": output,
                        "LocalPath": "/opt/ml/processing/out",
                        "S3UploadMode": "EndOfJob",
                    },
                }
            ]
        },
        "ProcessingResources": {
            "ClusterConfig": {
                "InstanceType": "ml.m5.large",
                "InstanceCount": 1,
                "VolumeSizeInGB": 30,
            }
        },
        "RoleArn": ROLE,
    }
    return RequestStep(name, StepTypeEnum.PROCESSING, request, **options)


def training(name: str, data: Any, epochs: Any, **options: Any) -> RequestStep:
    """A Training step that runs `training/train.py` of the source archive."""
    request = {
        "AlgorithmSpecification": {
            "TrainingImage": IMAGE,
            "TrainingInputMode": "File",
            "MetricDefinitions": [{"Name": "validation:accuracy", "Regex": "accuracy=([0-9.]+)"}],
        },
        "HyperParameters": {
            "arm": name,
            "epochs": epochs.to_string(),
            "sagemaker_program": json.dumps("training/train.py"),
            "sagemaker_submit_directory": json.dumps("s3://bucket/code/source.tar.gz"),
            "sagemaker_region": json.dumps("eu-west-1"),
        },
        "InputDataConfig": [
            {
                "ChannelName": "train",
                "DataSource": {
                    "S3DataSource": {
                        "S3DataType": "S3Prefix",
                        "S3Uri": data,
                        "S3DataDistributionType": "FullyReplicated",
                    }
                },
            }
        ],
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/models"},
        "ResourceConfig": {
            "InstanceType": "ml.g5.xlarge",
            "InstanceCount": 1,
            "VolumeSizeInGB": 50,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "RoleArn": ROLE,
    }
    return RequestStep(name, StepTypeEnum.TRAINING, request, cache=True, **options)


def pipeline(session: PipelineSession) -> Pipeline:
    """prepare -> two arms -> gate -> decide -> register or fail; a note when an arm fails."""
    data = ParameterString("Data", default_value="s3://bucket/raw")
    epochs = ParameterInteger("Epochs", default_value=3)
    floor = ParameterFloat("Floor", default_value=0.5)
    strict = ParameterBoolean("Strict", default_value=True)

    prepare = processing("prepare", ["prepare"], {"raw": data}, cache=True)
    prepared = prepare.properties.ProcessingOutputConfig.Outputs["out"].S3Output.S3Uri
    retries = [
        SageMakerJobStepRetryPolicy(
            exception_types=[SageMakerJobExceptionTypeEnum.CAPACITY_ERROR], max_attempts=2
        ),
        StepRetryPolicy(exception_types=[StepExceptionTypeEnum.SERVICE_FAULT], max_attempts=1),
    ]
    baseline = training("baseline", prepared, epochs, retry_policies=retries)
    compiled = training("compiled", prepared, epochs)
    report = PropertyFile(name="Report", output_name="out", path="report.json")
    gate = processing(
        "gate",
        ["gate", compiled.properties.TrainingJobName],
        {
            "baseline": baseline.properties.ModelArtifacts.S3ModelArtifacts,
            "compiled": compiled.properties.ModelArtifacts.S3ModelArtifacts,
        },
        property_files=(report,),
    )

    def reported(path: str) -> JsonGet:
        return JsonGet(step_name="gate", property_file=report, json_path=path)

    register = RequestStep(
        "register",
        StepTypeEnum.REGISTER_MODEL,
        {
            "ModelPackageGroupName": "example",
            "ModelApprovalStatus": "PendingManualApproval",
            "InferenceSpecification": {
                "Containers": [
                    {
                        "Image": IMAGE,
                        "ModelDataUrl": compiled.properties.ModelArtifacts.S3ModelArtifacts,
                    }
                ],
                "SupportedContentTypes": ["application/json"],
                "SupportedResponseMIMETypes": ["application/json"],
            },
            "CustomerMetadataProperties": {"execution": ExecutionVariables.PIPELINE_EXECUTION_ID},
        },
    )
    accuracy = compiled.properties.FinalMetricDataList["validation:accuracy"].Value
    decide = ConditionStep(
        "decide",
        conditions=[
            ConditionEquals(left=reported("decision.arm"), right="compiled"),
            ConditionGreaterThanOrEqualTo(left=accuracy, right=floor),
            ConditionGreaterThan(left=reported("arms['compiled'].speedup"), right=1.2),
            ConditionLessThan(left=reported("reasons[0].code"), right="z"),
            ConditionLessThanOrEqualTo(left=epochs, right=3),
            ConditionIn(value=reported("decision.arm"), in_values=["compiled", "baseline"]),
            ConditionNot(ConditionEquals(left=strict, right=False)),
            ConditionOr(
                [
                    ConditionEquals(left=reported("decision.sound"), right=False),
                    ConditionEquals(left=reported("decision.sound"), right=True),
                ]
            ),
        ],
        if_steps=[register],
        else_steps=[
            FailStep(
                "nothing-to-ship",
                error_message=Join(on=" ", values=["no model:", reported("decision.arm")]),
            )
        ],
    )
    note = processing(
        "note", ["note"], {}, depends_on=[StepDependency(baseline, TriggerCondition.FAILED)]
    )
    return Pipeline(
        "sdk-pipeline",
        parameters=[data, epochs, floor, strict],
        steps=[prepare, baseline, compiled, gate, decide, note],
        sagemaker_session=session,
    )


def main() -> None:
    """Write the definition beside this file."""
    session = PipelineSession(
        boto_session=boto3.Session(
            aws_access_key_id="none", aws_secret_access_key="none", region_name="eu-west-1"
        ),
        default_bucket="bucket",
    )
    definition = json.loads(pipeline(session).definition())
    path = Path(__file__).with_name("sdk_pipeline.json")
    path.write_text(json.dumps(definition, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
