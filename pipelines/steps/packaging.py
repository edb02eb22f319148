"""The step before registration: the model goes to where it stays, with the code that serves it.

What training jobs write expires. A registered model and its verdict do not: they lie in the
workload's `models/` and `verdicts/`, which no lifecycle rule names.
"""

from __future__ import annotations

from typing import Any

from compilegate.document.expressions import Expression, execution_variable, join
from compilegate.document.model import Step
from compilegate.job.names import MODEL_ARCHIVE
from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.requests.images import serving_image
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.processing import (
    INPUT,
    OUTPUT,
    Uri,
    output_uri,
    processing_step,
)

MODEL = "model"
CODE_FOLDER = "/opt/ml/model/code"
"""Where an inference image finds the code of the archive."""


def package_step(blueprint: Blueprint, name: str, *, model: Uri, job: Expression) -> Step:
    """Copies the model of a training job to a key of that job's, with the handler where the
    workload has one. Cached: the same model with the same code is the same archive."""
    code = blueprint.sources.serving_code
    named = [] if code is None else ["--code", f"{INPUT}/serving/{object_name(code)}"]
    return processing_step(
        blueprint,
        name,
        description="The model that will be registered, where it stays",
        image="gate",
        module="compilegate.pipelines.programs.package",
        code=blueprint.sources.gate_code,
        arguments=[f"{INPUT}/{MODEL}", f"{OUTPUT}/{MODEL}", *named],
        inputs={MODEL: model, **({} if code is None else {"serving": code})},
        output=MODEL,
        kept_at=join("/", [_place(blueprint, "models"), job, MODEL]),
        cached=True,
    )


def packaged_uri(package: Step) -> Expression:
    return join("/", [output_uri(package), MODEL_ARCHIVE])


def verdicts_uri(blueprint: Blueprint) -> Expression:
    """Where the verdict of an execution lies, and its reports."""
    execution = execution_variable("PipelineExecutionId")
    return join("/", [_place(blueprint, "verdicts"), execution])


def _place(blueprint: Blueprint, kind: str) -> str:
    return blueprint.deployment.uri("workloads", blueprint.workload.name, kind)


def inference_specification(blueprint: Blueprint, package: Step, trained_in: Uri) -> dict[str, Any]:
    """How the registered model is served. Where the workload does not say, the image is the one
    that trained the model, and there are no content types, since it holds no server."""
    serving = blueprint.workload.serving
    model = {"ModelDataUrl": packaged_uri(package)}
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
            "SAGEMAKER_SUBMIT_DIRECTORY": CODE_FOLDER,
            "SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
            "SAGEMAKER_REGION": blueprint.deployment.region,
        }
    of_instances = {
        "real-time": "SupportedRealtimeInferenceInstanceTypes",
        "batch": "SupportedTransformInstanceTypes",
    }
    kinds = [of_instances[serving.deploy]] if serving.deploy in of_instances else []
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
