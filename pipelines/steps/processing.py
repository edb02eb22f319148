"""The step that all processing jobs of this project share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compilegate.document.expressions import Expression, execution_variable, join, step_property
from compilegate.document.model import PropertyFile, Step
from compilegate.document.step_types import PROCESSING
from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.requests.keys_network_tags import (
    output_key,
    processing_network,
    shared_tags,
    volume_key,
)
from compilegate.pipelines.requests.retries import job_retries
from compilegate.pipelines.steps.blueprint import Blueprint

INPUT = "/opt/ml/processing/input"
OUTPUT = "/opt/ml/processing/output"
MOST_INPUTS = 10
"""The service's limit for one processing job."""

Uri = str | Expression


def processing_step(
    blueprint: Blueprint,
    name: str,
    *,
    description: str,
    image: str,
    module: str,
    code: str,
    arguments: Sequence[str | Expression],
    inputs: Mapping[str, Uri],
    output: str,
    kept_at: Uri | None = None,
    cached: bool = False,
    offline: bool = True,
    property_files: tuple[PropertyFile, ...] = (),
) -> Step:
    """A step whose job runs `python3 -m module` in the image of that folder.

    `code` is the URI of the zip that holds the module. `inputs` maps a name, which is also the
    folder below INPUT, to where its content lies. What the program leaves in OUTPUT/`output` is
    kept under `kept_at`, or a key of this execution's own. `cached` says that the result depends on
    nothing but the request, `offline` that the program calls nothing beyond its container.
    """
    return Step(
        name,
        PROCESSING,
        _request(
            blueprint,
            image=image,
            module=module,
            code=code,
            arguments=arguments,
            inputs=inputs,
            output=output,
            kept_at=kept_at,
            offline=offline,
        ),
        description=description,
        cache=blueprint.cache if cached else None,
        retry_policies=job_retries(blueprint.workload.compute),
        property_files=property_files,
    )


def _request(
    blueprint: Blueprint,
    *,
    image: str,
    module: str,
    code: str,
    arguments: Sequence[str | Expression],
    inputs: Mapping[str, Uri],
    output: str,
    kept_at: Uri | None,
    offline: bool,
) -> dict[str, Any]:
    """A CreateProcessingJob request."""
    deployment, compute = blueprint.deployment, blueprint.workload.compute
    return {
        "AppSpecification": {
            "ImageUri": deployment.images[image],
            "ContainerEntrypoint": ["python3", "-m", module],
            "ContainerArguments": list(arguments),
        },
        # Python imports from the zip as it is; unpacked, each of its files would have to be an
        # object of its own.
        "Environment": {
            "PYTHONPATH": f"{INPUT}/code/{object_name(code)}",
            "PYTHONUNBUFFERED": "1",
        },
        "ProcessingInputs": [
            {
                "InputName": name.replace("/", "-"),
                "S3Input": {
                    "S3Uri": uri,
                    "LocalPath": f"{INPUT}/{name}",
                    "S3DataType": "S3Prefix",
                    "S3InputMode": "File",
                },
            }
            for name, uri in {"code": code, **inputs}.items()
        ],
        "ProcessingOutputConfig": {
            **output_key(deployment),
            "Outputs": [
                {
                    "OutputName": output,
                    "S3Output": {
                        "S3Uri": kept_at or execution_uri(blueprint, output),
                        "LocalPath": f"{OUTPUT}/{output}",
                        "S3UploadMode": "EndOfJob",
                    },
                }
            ],
        },
        "ProcessingResources": {
            "ClusterConfig": {
                "InstanceType": compute.processing_instance_type,
                "InstanceCount": 1,
                "VolumeSizeInGB": compute.volume_gb,
                **volume_key(deployment, compute.processing_instance_type),
            }
        },
        "RoleArn": deployment.processing_role_arn,
        "StoppingCondition": {"MaxRuntimeInSeconds": compute.processing_max_runtime_seconds},
        **processing_network(deployment, offline=offline),
        "Tags": shared_tags(deployment, blueprint.workload),
    }


def output_uri(step: Step) -> Expression:
    """Where the one output of a step of `processing_step` lies."""
    (output,) = step.arguments["ProcessingOutputConfig"]["Outputs"]
    path = f"ProcessingOutputConfig.Outputs['{output['OutputName']}'].S3Output.S3Uri"
    return step_property(step.name, path)


def execution_uri(blueprint: Blueprint, *parts: str) -> Expression:
    """A key of the execution's own: outputs are no part of the cache's key, so a step that runs
    again can never overwrite what an earlier execution's cached step points to."""
    place = blueprint.deployment.uri("workloads", blueprint.workload.name, "executions")
    return join("/", [place, execution_variable("PipelineExecutionId"), *parts])
