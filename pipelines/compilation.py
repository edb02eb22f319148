"""Compile a workload to the JSON of a SageMaker pipeline."""

from __future__ import annotations

import json
import os
from typing import Any

# Importing the SDK without a region fails; the definition itself does not depend on this one.
os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")

import boto3
from sagemaker.core.workflow.pipeline_context import PipelineSession
from sagemaker.mlops.workflow.pipeline import Pipeline
from sagemaker.mlops.workflow.steps import Step

from compilegate.pipelines.deployment import Deployment, Sources
from compilegate.pipelines.requests.checks import RequestError, check_requests
from compilegate.pipelines.requests.images import image_faults, processing_faults
from compilegate.pipelines.steps.blueprint import Blueprint, blueprint_of
from compilegate.pipelines.steps.champion import succession_steps
from compilegate.pipelines.steps.comparison import comparison_steps
from compilegate.pipelines.steps.neuron import isolation_faults
from compilegate.workload import HubModel, Succession, Workload


def compile_definition(workload: Workload, deployment: Deployment, sources: Sources) -> str:
    """The pipeline definition, as indented JSON that ends in a line feed.

    Raises RequestError when a step's request is not one that the service would take, cannot work in
    the deployment's network, or names an image that the deployment does not have.
    """
    _check_reach(workload, deployment)
    _check_images(workload, deployment)
    blueprint = blueprint_of(workload, deployment, sources)
    pipeline = Pipeline(
        name=deployment.pipeline_name(workload),
        parameters=blueprint.parameters.in_order(),
        steps=_steps(blueprint),
        sagemaker_session=_offline_session(deployment),
        pipeline_experiment_config=None,
    )
    definition: dict[str, Any] = json.loads(pipeline.definition())
    # The SDK writes these as null when they are not used; whether the service takes a null is
    # nowhere said, and leaving them out is.
    definition = {key: value for key, value in definition.items() if value is not None}
    check_requests(definition)
    return json.dumps(definition, indent=2) + "\n"


def compact(definition: str) -> str:
    """The same definition without the space that is there for people, as CloudFormation gets it."""
    return json.dumps(json.loads(definition), separators=(",", ":"))


def _check_reach(workload: Workload, deployment: Deployment) -> None:
    model = workload.model
    if deployment.isolated and isinstance(model, HubModel) and not model.id.startswith("/"):
        raise RequestError(
            f"model.id is {model.id!r}, which jobs in network isolation cannot fetch, allowed: "
            "the folder of a model in the image, or a network without isolation"
        )


def _check_images(workload: Workload, deployment: Deployment) -> None:
    faults = [
        *image_faults(deployment, workload.arms),
        *processing_faults(deployment, workload.program),
        *isolation_faults(deployment, workload.arms),
    ]
    if faults:
        raise RequestError(*faults)


def _steps(blueprint: Blueprint) -> list[Step]:
    kind = blueprint.workload.kind
    if isinstance(kind, Succession):
        return succession_steps(blueprint, kind)
    return comparison_steps(blueprint, kind)


def _offline_session(deployment: Deployment) -> PipelineSession:
    """A session that has no reason to call AWS: the bucket and the settings are given."""
    return PipelineSession(
        boto_session=boto3.Session(region_name=deployment.region),
        default_bucket=deployment.bucket,
        sagemaker_config={"SchemaVersion": "1.0"},
    )
