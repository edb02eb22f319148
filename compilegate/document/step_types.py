"""The types of step that a definition may have here, each with all that is known of it.

To let the local runner run another type, add it here; the runner's tests then name every place
that has to know how.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TRAINING = "Training"
PROCESSING = "Processing"
REGISTER_MODEL = "RegisterModel"
CONDITION = "Condition"
FAIL = "Fail"
LAMBDA = "Lambda"
MODEL = "Model"
TRANSFORM = "Transform"
CALLBACK = "Callback"


@dataclass(frozen=True, kw_only=True)
class StepType:
    """What SageMaker Pipelines does with a type of step."""

    operation: str | None = None
    """The API call that takes the step's arguments; None where the service makes none."""
    description: str | None = None
    """The shape that describes what the call made: its members are the step's properties."""
    properties: tuple[str, ...] = ()
    """The properties that a local execution gives, besides the members of the request."""
    job_name: str | None = None
    """The member that names the job that the step runs; None where it runs none."""
    resources: tuple[str, ...] = ()
    """Where in the request the job's instances are."""
    cache_key: tuple[str, ...] = ()
    """The members of the request by which the step cache tells one run from another, as SageMaker
    documents them; empty where a result is never taken from the cache."""
    retries: bool = False
    """Whether it takes retry policies."""
    property_files: bool = False
    function: bool = False
    """Whether it names a function to call, and what that returns."""
    by_command: bool = False
    """Whether it needs what only AWS has, so that here a command stands for it."""
    outputs: bool = False
    """Whether it declares what it returns, under OutputParameters."""
    members: tuple[str, ...] = ()
    """What it says beside its arguments, and the service alone reads."""
    on_branch: bool = True
    """Whether it may stand on the branch of a condition."""


STEP_TYPES: Mapping[str, StepType] = {
    TRAINING: StepType(
        operation="CreateTrainingJob",
        description="DescribeTrainingJobResponse",
        properties=(
            "TrainingJobName",
            "TrainingJobArn",
            "TrainingJobStatus",
            "SecondaryStatus",
            "CreationTime",
            "TrainingStartTime",
            "TrainingEndTime",
            "LastModifiedTime",
            "TrainingTimeInSeconds",
            "BillableTimeInSeconds",
            "FinalMetricDataList",
            "ModelArtifacts",
            "FailureReason",
        ),
        job_name="TrainingJobName",
        resources=("ResourceConfig",),
        cache_key=(
            "AlgorithmSpecification",
            "CheckpointConfig",
            "DebugHookConfig",
            "DebugRuleConfigurations",
            "Environment",
            "HyperParameters",
            "InputDataConfig",
        ),
        retries=True,
    ),
    PROCESSING: StepType(
        operation="CreateProcessingJob",
        description="DescribeProcessingJobResponse",
        properties=(
            "ProcessingJobName",
            "ProcessingJobArn",
            "ProcessingJobStatus",
            "CreationTime",
            "ProcessingStartTime",
            "ProcessingEndTime",
            "LastModifiedTime",
            "ExitMessage",
            "FailureReason",
        ),
        job_name="ProcessingJobName",
        resources=("ProcessingResources", "ClusterConfig"),
        cache_key=("AppSpecification", "Environment", "ProcessingInputs"),
        retries=True,
        property_files=True,
    ),
    CONDITION: StepType(properties=("Outcome",), on_branch=False),
    FAIL: StepType(),
    LAMBDA: StepType(properties=("OutputParameters",), function=True, outputs=True),
    MODEL: StepType(
        operation="CreateModel",
        description="DescribeModelOutput",
        properties=("ModelName", "ModelArn", "CreationTime"),
        retries=True,
    ),
    TRANSFORM: StepType(
        operation="CreateTransformJob",
        description="DescribeTransformJobResponse",
        properties=(
            "TransformJobName",
            "TransformJobArn",
            "TransformJobStatus",
            "CreationTime",
            "TransformStartTime",
            "TransformEndTime",
            "FailureReason",
        ),
        job_name="TransformJobName",
        resources=("TransformResources",),
        cache_key=("DataProcessing", "Environment", "ModelName", "TransformInput"),
        retries=True,
    ),
    CALLBACK: StepType(
        properties=("OutputParameters",), by_command=True, outputs=True, members=("SqsQueueUrl",)
    ),
    REGISTER_MODEL: StepType(
        operation="CreateModelPackage",
        description="DescribeModelPackageOutput",
        properties=(
            "ModelPackageArn",
            "ModelPackageVersion",
            "ModelPackageStatus",
            "ModelApprovalStatus",
            "CreationTime",
            "LastModifiedTime",
        ),
        retries=True,
    ),
}


def step_members(step_type: str) -> tuple[str, ...]:
    """The members that a step of that type may have in the JSON of a definition."""
    known = STEP_TYPES[step_type]
    return (
        *("Name", "Type", "Arguments", "DependsOn", "DisplayName", "Description"),
        *(("RetryPolicies",) if known.retries else ()),
        *(("CacheConfig",) if known.cache_key or known.by_command or known.function else ()),
        *(("PropertyFiles",) if known.property_files else ()),
        *(("FunctionArn",) if known.function else ()),
        *(("OutputParameters",) if known.outputs else ()),
        *known.members,
    )
