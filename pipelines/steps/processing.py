"""The step that all processing jobs share, and the first of them, which prepares the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compilegate.document.expressions import (
    Expression,
    execution_variable,
    join,
    parameter,
    step_property,
)
from compilegate.document.model import PropertyFile, Step
from compilegate.document.step_types import PROCESSING
from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.images import GATE
from compilegate.pipelines.requests import (
    Blueprint,
    Uri,
    job_retries,
    job_tags,
    network_members,
    output_key,
    volume_key,
)
from compilegate.workload.parameters import DATA

INPUT = "/opt/ml/processing/input"
OUTPUT = "/opt/ml/processing/output"
MOST_INPUTS = 10
"""The service's limit for one processing job."""


@dataclass(frozen=True, kw_only=True)
class ProcessingJob:
    """What a processing job runs: `python3 -m module` in the image of a folder."""

    name: str
    description: str
    module: str
    arguments: Sequence[str | Expression]
    inputs: Mapping[str, Uri]
    """Where content lies, by its name, which is also its folder below INPUT."""
    output: str
    """The folder below OUTPUT that is uploaded."""
    destination: Uri | None = None
    """Where it is uploaded; None for a key of this execution's own."""
    image: str = GATE
    code: str | None = None
    """The URI of the zip that holds the module; None for the gate's."""
    cached: bool = False
    """Whether the result depends on nothing but the request."""
    offline: bool = True
    """Whether the program calls nothing beyond its container."""
    property_files: tuple[PropertyFile, ...] = ()


def processing_step(blueprint: Blueprint, job: ProcessingJob) -> Step:
    """The step of a processing job."""
    return Step(
        job.name,
        PROCESSING,
        _request(blueprint, job),
        description=job.description,
        cache=blueprint.cache if job.cached else None,
        retry_policies=job_retries(blueprint.workload.compute),
        property_files=job.property_files,
    )


def _request(blueprint: Blueprint, job: ProcessingJob) -> dict[str, Any]:
    """A CreateProcessingJob request."""
    deployment, compute = blueprint.deployment, blueprint.workload.compute
    code = blueprint.sources.gate_code if job.code is None else job.code
    # Outputs are no part of the step cache's key: with a key of its own, a step that runs again
    # can never overwrite what an earlier execution's cached step points to.
    own_key = [blueprint.uri("executions"), execution_variable("PipelineExecutionId"), job.output]
    network = network_members(deployment, offline=job.offline)
    return {
        "AppSpecification": {
            "ImageUri": deployment.images[job.image],
            "ContainerEntrypoint": ["python3", "-m", job.module],
            "ContainerArguments": list(job.arguments),
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
            for name, uri in {"code": code, **job.inputs}.items()
        ],
        "ProcessingOutputConfig": {
            **output_key(deployment),
            "Outputs": [
                {
                    "OutputName": job.output,
                    "S3Output": {
                        "S3Uri": job.destination or join("/", own_key),
                        "LocalPath": f"{OUTPUT}/{job.output}",
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
        **({"NetworkConfig": network} if network else {}),
        "Tags": job_tags(blueprint),
    }


def output_uri(step: Step) -> Expression:
    """Where the one output of a processing step lies."""
    (output,) = step.arguments["ProcessingOutputConfig"]["Outputs"]
    path = f"ProcessingOutputConfig.Outputs['{output['OutputName']}'].S3Output.S3Uri"
    return step_property(step.name, path)


def prepared_data(blueprint: Blueprint) -> tuple[list[Step], Uri]:
    """The steps that prepare one data set for all training jobs, and where it lies."""
    preparation = blueprint.workload.kind.preparation
    if preparation is None:
        return [], parameter(DATA)
    output = "prepared"
    job = ProcessingJob(
        name="Prepare",
        description=preparation.description,
        image=preparation.image,
        module=preparation.module,
        code=blueprint.sources.training_code,
        arguments=[
            *("--data-dir", f"{INPUT}/data", "--output-dir", f"{OUTPUT}/{output}"),
            *preparation.arguments,
        ],
        inputs={"data": parameter(DATA)},
        output=output,
        cached=True,
        offline=False,  # a tokenizer may come from a hub, and a script may fetch from anywhere
    )
    step = processing_step(blueprint, job)
    return [step], output_uri(step)
