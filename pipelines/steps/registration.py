"""The last steps: the decided arm's model is registered, or the execution fails.

What training jobs write expires. A registered model and its verdict do not: they lie in the
workload's `models/` and `verdicts/`, which no lifecycle rule names. So `Package-ARM` copies the
model there before `Register-ARM`, with the code that serves it.
"""

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
)
from compilegate.document.model import Branch, Step
from compilegate.document.step_types import CONDITION, FAIL, REGISTER_MODEL
from compilegate.job.contract import (
    BASELINE_ARM,
    MODEL_ARCHIVE,
    MODEL_CARD_FILE,
    NO_ARM,
    NOTHING_NEW,
    STATISTICS_FILE,
    VERDICT_FILE,
)
from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.images import image_of, serving_image
from compilegate.pipelines.requests import Blueprint, Uri
from compilegate.pipelines.steps.gate import (
    PROGRAMS,
    STEP,
    VERDICT,
    beside_the_verdict,
    keep_step,
)
from compilegate.pipelines.steps.processing import (
    INPUT,
    OUTPUT,
    ProcessingJob,
    output_uri,
    processing_step,
)
from compilegate.pipelines.steps.training import Replicate, evidence_uri, job_name, model_uri
from compilegate.workload.parameters import APPROVAL

DECIDED = json_get(STEP, VERDICT.name, "decision.registers")
"""What verdict.json registers (`compilegate.gate.decision` has the table)."""
_MODEL = "model"
_INSTANCES = {
    "real-time": "SupportedRealtimeInferenceInstanceTypes",
    "batch": "SupportedTransformInstanceTypes",
}


def decide_steps(blueprint: Blueprint, gate: Step, trained: Mapping[Replicate, Step]) -> list[Step]:
    """A condition for each arm, and one that fails the execution where nothing may be registered.
    Where nothing is new, none of them holds, and the execution succeeds.

    They stand side by side: the service takes no condition on the branch of another.
    """
    # The first replicate's model: the choice is made before anything is measured.
    seed = blueprint.workload.seeds[0]
    arms = [*blueprint.workload.candidates, BASELINE_ARM]
    steps = []
    for arm in arms:
        condition = {"Type": "Equals", "LeftValue": DECIDED, "RightValue": arm}
        step = trained[arm, seed]
        package = package_step(blueprint, f"Package-{arm}", model_uri(step), job_name(step))
        register = register_step(blueprint, gate, step, package, (arm, seed))
        keep = keep_step(blueprint, f"Keep-{arm}", evidence_uri(step), register)
        steps += branch(f"Decide-{arm}", condition, [package, register, keep])
    known = {"Type": "In", "QueryValue": DECIDED, "Values": [*arms, NOTHING_NEW]}
    unknown = {"Type": "Not", "Condition": known}
    return [*steps, *branch(f"Decide-{NO_ARM}", unknown, [_fail_step(gate)])]


def branch(name: str, condition: Mapping[str, Any], steps: Sequence[Step]) -> list[Step]:
    """A condition step, and the steps that run where it holds."""
    choice = Step(name, CONDITION, {"Conditions": [condition]})
    return [choice, *(replace(step, branch=Branch(name, True)) for step in steps)]


def _fail_step(gate: Step) -> Step:
    """Fails the execution with the place of the verdict.

    One `Std:Join` of texts and a step's property, which the SageMaker SDK's own tests show to be
    filled in there (tests/integ/sagemaker/workflow/test_fail_steps.py); none shows a join within a
    join.
    """
    reason = (
        "No candidate passed, and the baseline is not valid or may not replace the registered "
        "model, so no model was registered; the reasons are in "
    )
    message = join("", [reason, output_uri(gate), f"/{VERDICT_FILE}"])
    return Step("Fail-no-valid-arm", FAIL, {"ErrorMessage": message})


def package_step(blueprint: Blueprint, name: str, model: Uri, job: Expression) -> Step:
    """Copies the model of a training job to a key of that job's, with the handler where the
    workload has one. Cached: the same model with the same code is the same archive."""
    code = blueprint.sources.serving_code
    options = [] if code is None else ["--code", f"{INPUT}/serving/{object_name(code)}"]
    packaging = ProcessingJob(
        name=name,
        description="The model that will be registered, where it stays",
        module=f"{PROGRAMS}.package",
        arguments=[f"{INPUT}/{_MODEL}", f"{OUTPUT}/{_MODEL}", *options],
        inputs={_MODEL: model, **({} if code is None else {"serving": code})},
        output=_MODEL,
        destination=join("/", [blueprint.uri("models"), job, _MODEL]),
        cached=True,
    )
    return processing_step(blueprint, packaging)


def register_step(
    blueprint: Blueprint, gate: Step, step: Step, package: Step, replicate: Replicate
) -> Step:
    """Registers the model of a training step, from where a packaging step copied it."""
    workload, (arm_name, seed) = blueprint.workload, replicate
    arm = workload.arms[arm_name]
    model = workload.kind.model_in_words(workload, arm_name, seed)
    return Step(
        f"Register-{arm_name}",
        REGISTER_MODEL,
        {
            "ModelPackageGroupName": blueprint.deployment.model_package_group(workload),
            "ModelPackageDescription": (
                f"{workload.description.rstrip('.')}. {model} {serving_in_words(blueprint)}"
            ),
            "ModelApprovalStatus": parameter(APPROVAL),
            "InferenceSpecification": inference_specification(
                blueprint, package, image_of(blueprint.deployment, arm)
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
                "compiler": arm.compiler,
                "seed": str(seed),
                "training_job": job_name(step),
                "verdict": beside_the_verdict(gate, VERDICT_FILE),
                "model_card": beside_the_verdict(gate, MODEL_CARD_FILE),
                "execution": execution_variable("PipelineExecutionId"),
            },
        },
    )


def inference_specification(blueprint: Blueprint, package: Step, trained_in: Uri) -> dict[str, Any]:
    """How the registered model is served. Where the workload does not say, the image is the one
    that trained the model, and there are no content types, since it holds no server."""
    serving = blueprint.workload.serving
    model = {"ModelDataUrl": join("/", [output_uri(package), MODEL_ARCHIVE])}
    if serving is None:
        return {"Containers": [{"Image": trained_in, **model}]}
    container: dict[str, Any] = {
        "Image": serving_image(blueprint.deployment, serving),
        **model,
        "Framework": "HUGGINGFACE" if serving.framework == "huggingface" else "PYTORCH",
        "FrameworkVersion": serving.version,
    }
    if serving.handler is not None:
        container["Environment"] = {
            "SAGEMAKER_PROGRAM": serving.handler,
            "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
            "SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
            "SAGEMAKER_REGION": blueprint.deployment.region,
        }
    kinds = [_INSTANCES[serving.deploy]] if serving.deploy in _INSTANCES else []
    return {
        "Containers": [container],
        "SupportedContentTypes": list(serving.content_types),
        "SupportedResponseMIMETypes": list(serving.response_types),
        **{kind: [serving.instance_type] for kind in kinds},
    }


def serving_in_words(blueprint: Blueprint) -> str:
    """For whoever finds the model in the registry."""
    if blueprint.workload.serving is None:
        return "Cannot be served as it is: its workload has no [serving]."
    return "Can be served."
