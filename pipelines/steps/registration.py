"""The last steps: the decided arm's model is registered, or the execution fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sagemaker.core.workflow.conditions import ConditionEquals, ConditionIn, ConditionNot
from sagemaker.core.workflow.execution_variables import ExecutionVariables
from sagemaker.core.workflow.functions import Join, JsonGet
from sagemaker.mlops.workflow.condition_step import ConditionStep
from sagemaker.mlops.workflow.fail_step import FailStep
from sagemaker.mlops.workflow.steps import Step, StepTypeEnum

from compilegate.pipelines.requests.images import image_of
from compilegate.pipelines.requests.settings import NO_ARM
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.gate import STEP as GATE_STEP
from compilegate.pipelines.steps.gate import VERDICT, Replicate, verdict_uri
from compilegate.pipelines.steps.request_step import RequestStep
from compilegate.pipelines.steps.training import model_uri
from compilegate.workload import Succession, Workload
from compilegate.workload.declaration import BASELINE

DECIDED_ARM = "decision.arm"
"""Where verdict.json names the arm whose model is registered."""


def decide_steps(
    blueprint: Blueprint, gate: RequestStep, trained: Mapping[Replicate, RequestStep]
) -> list[Step]:
    """A condition for each arm, and one that fails the execution where no arm was decided on.

    They stand side by side: the service takes no condition on the branch of another.
    """
    # The first replicate's model: the choice is made before anything is measured.
    seed = blueprint.workload.seeds[0]
    arms = [*blueprint.workload.candidates, BASELINE]
    deciding = [
        decide_step(
            arm, [register_step(blueprint, gate, trained[arm, seed], arm_name=arm, seed=seed)]
        )
        for arm in arms
    ]
    nothing = FailStep(
        "Fail-no-sound-arm",
        error_message=Join(
            on=" ",
            values=[
                "Neither a candidate nor the baseline is sound, so no model was registered;",
                "the reasons are in",
                verdict_uri(gate),
            ],
        ),
    )
    return [*deciding, decide_none_step(arms, nothing)]


def decide_step(arm: str, then: Sequence[Step]) -> ConditionStep:
    """What is done where the verdict names this arm."""
    return ConditionStep(
        f"Decide-{arm}",
        conditions=[ConditionEquals(left=_decided_arm(), right=arm)],
        if_steps=list(then),
        else_steps=[],
    )


def decide_none_step(arms: Sequence[str], nothing: FailStep) -> ConditionStep:
    """Fails the execution where the verdict names none of these arms, whatever else it names."""
    return ConditionStep(
        f"Decide-{NO_ARM}",
        conditions=[ConditionNot(ConditionIn(value=_decided_arm(), in_values=list(arms)))],
        if_steps=[nothing],
        else_steps=[],
    )


def _decided_arm() -> JsonGet:
    return JsonGet(step_name=GATE_STEP, property_file=VERDICT, json_path=DECIDED_ARM)


def register_step(
    blueprint: Blueprint, gate: RequestStep, step: RequestStep, *, arm_name: str, seed: int
) -> RequestStep:
    """Registers the model that a training step left."""
    workload = blueprint.workload
    declared = workload.trained_arms[arm_name]
    return RequestStep(
        f"Register-{arm_name}",
        StepTypeEnum.REGISTER_MODEL,
        {
            "ModelPackageGroupName": blueprint.deployment.model_package_group(workload),
            "ModelPackageDescription": (
                f"{workload.description.rstrip('.')}. {_in_words(workload, arm_name, seed)}"
            ),
            "ModelApprovalStatus": blueprint.parameters.approval,
            "InferenceSpecification": {
                "Containers": [
                    {
                        "Image": image_of(blueprint.deployment, declared),
                        "ModelDataUrl": model_uri(step),
                    }
                ],
                "SupportedContentTypes": ["application/json"],
                "SupportedResponseMIMETypes": ["application/json"],
            },
            "ModelMetrics": {
                "ModelQuality": {
                    "Statistics": {
                        "ContentType": "application/json",
                        "S3Uri": verdict_uri(gate),
                    }
                }
            },
            "CustomerMetadataProperties": {
                "workload": workload.name,
                "arm": arm_name,
                "compiler": declared.compiler,
                "seed": str(seed),
                "training_job": step.properties.TrainingJobName,
                "verdict": verdict_uri(gate),
                "execution": ExecutionVariables.PIPELINE_EXECUTION_ID,
            },
        },
    )


def _in_words(workload: Workload, arm_name: str, seed: int) -> str:
    if isinstance(workload.kind, Succession):
        return f"Compared with the model registered before; seed {seed}."
    arm = workload.arms[arm_name]
    return f"Arm {arm_name}: {arm.compiler}, batch {arm.batch_size}, {arm.precision}, seed {seed}."
