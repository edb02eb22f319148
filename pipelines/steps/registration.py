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
from compilegate.document.model import Branch, Dependency, Step
from compilegate.document.step_types import CONDITION, FAIL, REGISTER_MODEL
from compilegate.job.names import (
    BASELINE_ARM,
    MODEL_CARD_FILE,
    NO_ARM,
    NOTHING_NEW,
    STATISTICS_FILE,
)
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
from compilegate.pipelines.steps.registered import keep_step
from compilegate.pipelines.steps.training import evidence_uri, model_uri
from compilegate.workload.parameters import APPROVAL

DECIDED = "decision.registers"
"""Where verdict.json says what is registered (`compilegate.gate.decision` has the table)."""


def decide_steps(blueprint: Blueprint, gate: Step, trained: Mapping[Replicate, Step]) -> list[Step]:
    """A condition for each arm, and one that fails the execution where nothing may be registered.
    Where nothing is new, none of them holds, and the execution succeeds.

    They stand side by side: the service takes no condition on the branch of another.
    """
    # The first replicate's model: the choice is made before anything is measured.
    seed = blueprint.workload.seeds[0]
    arms = [*blueprint.workload.candidates, BASELINE_ARM]
    deciding = [
        step
        for arm in arms
        for step in _choice(
            arm,
            {"Type": "Equals", "LeftValue": _decided(), "RightValue": arm},
            _register_steps(blueprint, gate, trained[arm, seed], arm_name=arm, seed=seed),
        )
    ]
    named = {"Type": "In", "QueryValue": _decided(), "Values": [*arms, NOTHING_NEW]}
    none = {"Type": "Not", "Condition": named}
    return [*deciding, *_choice(NO_ARM, none, [_fail_step(gate)])]


def _choice(decided: str, condition: Mapping[str, Any], then: Sequence[Step]) -> list[Step]:
    choice = Step(f"Decide-{decided}", CONDITION, {"Conditions": [condition]})
    return [choice, *(replace(step, branch=Branch(choice.name, True)) for step in then)]


def _fail_step(gate: Step) -> Step:
    """Fails the execution with the place of the verdict.

    One `Std:Join` of texts and a step's property, which the SageMaker SDK's own tests show to be
    filled in there (tests/integ/sagemaker/workflow/test_fail_steps.py); none says so of a join
    within a join.
    """
    words = (
        "No candidate passed, and the baseline is not valid or may not replace the registered "
        "model, so no model was registered; the reasons are in "
    )
    message = join("", [words, output_uri(gate), f"/{VERDICT.file_path}"])
    return Step("Fail-no-valid-arm", FAIL, {"ErrorMessage": message})


def _decided() -> Expression:
    return json_get(GATE_STEP, VERDICT.name, DECIDED)


def _register_steps(
    blueprint: Blueprint, gate: Step, step: Step, *, arm_name: str, seed: int
) -> list[Step]:
    """Puts the model that a training step left to where it stays, registers it there, and keeps its
    evidence for the next execution."""
    package = package_step(
        blueprint,
        f"Package-{arm_name}",
        model=model_uri(step),
        job=step_property(step.name, "TrainingJobName"),
    )
    register = register_step(blueprint, gate, step, package, arm_name=arm_name, seed=seed)
    keep = keep_step(blueprint, f"Keep-{arm_name}", evidence_uri(step))
    return [package, register, replace(keep, depends_on=(Dependency(register.name),))]


def register_step(
    blueprint: Blueprint, gate: Step, step: Step, package: Step, *, arm_name: str, seed: int
) -> Step:
    """Registers the model of a training step, from where a packaging step put it."""
    workload = blueprint.workload
    declared = workload.arms[arm_name]
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
