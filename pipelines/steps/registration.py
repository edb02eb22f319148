"""The last steps: the decided arm's model is registered, or the execution fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compilegate.document.expressions import (
    Expression,
    execution_variable,
    join,
    json_get,
    parameter,
    step_property,
)
from compilegate.document.model import Branch, Step
from compilegate.document.step_types import CONDITION, FAIL, REGISTER_MODEL
from compilegate.job.names import BASELINE_ARM, MODEL_CARD_FILE, NO_ARM, STATISTICS_FILE
from compilegate.pipelines.requests.images import image_of
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.gate import STEP as GATE_STEP
from compilegate.pipelines.steps.gate import VERDICT, Replicate, beside_the_verdict, verdict_uri
from compilegate.pipelines.steps.packaging import (
    inference_specification,
    package_step,
    serving_in_words,
)
from compilegate.pipelines.steps.processing import output_uri
from compilegate.pipelines.steps.training import model_uri
from compilegate.workload.parameters import APPROVAL

DECIDED_ARM = "decision.arm"
"""Where verdict.json names the arm whose model is registered."""


def decide_steps(blueprint: Blueprint, gate: Step, trained: Mapping[Replicate, Step]) -> list[Step]:
    """A condition for each arm, and one that fails the execution where no arm was decided on.

    They stand side by side: the service takes no condition on the branch of another.
    """
    # The first replicate's model: the choice is made before anything is measured.
    seed = blueprint.workload.seeds[0]
    arms = [*blueprint.workload.candidates, BASELINE_ARM]
    nothing = fail_step(
        "Fail-no-sound-arm",
        "Neither a candidate nor the baseline is sound, so no model was registered; "
        "the reasons are in",
        gate,
    )
    deciding = [
        step
        for arm in arms
        for step in decide_arm(
            arm, register_steps(blueprint, gate, trained[arm, seed], arm_name=arm, seed=seed)
        )
    ]
    return [*deciding, *decide_none(arms, nothing)]


def decide_arm(arm: str, then: Sequence[Step]) -> list[Step]:
    """A condition, and what is done where the verdict names this arm."""
    return _choice(arm, {"Type": "Equals", "LeftValue": _decided_arm(), "RightValue": arm}, then)


def decide_none(arms: Sequence[str], nothing: Step) -> list[Step]:
    """Fails the execution where the verdict names none of these arms, whatever else it names."""
    named = {"Type": "In", "QueryValue": _decided_arm(), "Values": list(arms)}
    return _choice(NO_ARM, {"Type": "Not", "Condition": named}, [nothing])


def _choice(decided: str, condition: Mapping[str, Any], then: Sequence[Step]) -> list[Step]:
    choice = Step(f"Decide-{decided}", CONDITION, {"Conditions": [condition]})
    return [choice, *(replace(step, branch=Branch(choice.name, True)) for step in then)]


def fail_step(name: str, words: str, gate: Step) -> Step:
    """Fails the execution with these words and the place of the verdict.

    One `Std:Join` of texts and a step's property, which the SageMaker SDK's own tests show to be
    filled in there (tests/integ/sagemaker/workflow/test_fail_steps.py); none says so of a join
    within a join.
    """
    message = join("", [f"{words} ", output_uri(gate), f"/{VERDICT.file_path}"])
    return Step(name, FAIL, {"ErrorMessage": message})


def _decided_arm() -> Expression:
    return json_get(GATE_STEP, VERDICT.name, DECIDED_ARM)


def register_steps(
    blueprint: Blueprint, gate: Step, step: Step, *, arm_name: str, seed: int
) -> list[Step]:
    """Puts the model that a training step left to where it stays, and registers it there."""
    package = package_step(
        blueprint,
        f"Package-{arm_name}",
        model=model_uri(step),
        job=step_property(step.name, "TrainingJobName"),
    )
    return [package, register_step(blueprint, gate, step, package, arm_name=arm_name, seed=seed)]


def register_step(
    blueprint: Blueprint, gate: Step, step: Step, package: Step, *, arm_name: str, seed: int
) -> Step:
    """Registers the model of a training step, from where a packaging step put it."""
    workload = blueprint.workload
    declared = workload.trained[arm_name]
    in_words = workload.kind.model_in_words(workload, arm_name, seed)
    return Step(
        f"Register-{arm_name}",
        REGISTER_MODEL,
        {
            "ModelPackageGroupName": blueprint.deployment.model_package_group(workload),
            "ModelPackageDescription": (
                f"{workload.description.rstrip('.')}. {in_words} {serving_in_words(blueprint)}"
            ),
            "ModelApprovalStatus": parameter(APPROVAL),
            "InferenceSpecification": inference_specification(
                blueprint, package, image_of(blueprint.deployment, declared)
            ),
            "ModelMetrics": {
                "ModelQuality": {
                    "Statistics": {
                        "ContentType": "application/json",
                        "S3Uri": beside_the_verdict(gate, STATISTICS_FILE),
                    }
                }
            },
            "CustomerMetadataProperties": {
                "workload": workload.name,
                "arm": arm_name,
                "compiler": declared.compiler,
                "seed": str(seed),
                "training_job": step_property(step.name, "TrainingJobName"),
                "verdict": verdict_uri(gate),
                "model_card": beside_the_verdict(gate, MODEL_CARD_FILE),
                "execution": execution_variable("PipelineExecutionId"),
            },
        },
    )
