"""The training steps: one for each arm and seed."""

from __future__ import annotations

from typing import Any

from compilegate.document.expressions import Expression, join, parameter, step_property
from compilegate.document.model import Step
from compilegate.document.step_types import TRAINING
from compilegate.job.names import (
    ATTEMPT_VARIABLE,
    BASELINE_ARM,
    IMAGE_VARIABLE,
    INSTANCE_TYPE_VARIABLE,
    OUTPUT_ARCHIVE,
    TIME_LIMIT_VARIABLE,
)
from compilegate.pipelines.deployment import Deployment
from compilegate.pipelines.requests.checkpoints import (
    checkpoint_members,
    compile_cache_environment,
    spot_environment,
    spot_limits,
    spot_members,
)
from compilegate.pipelines.requests.images import image_of
from compilegate.pipelines.requests.keys_network_tags import (
    output_key,
    training_network,
    training_tags,
    volume_key,
)
from compilegate.pipelines.requests.retries import job_retries
from compilegate.pipelines.requests.toolkit import channel, code_channels, toolkit_parameters
from compilegate.pipelines.requests.training_compiler import arm_hyperparameters
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.neuron import neuron_environment
from compilegate.pipelines.steps.processing import Uri
from compilegate.workload import Arm, Workload
from compilegate.workload.parameters import ATTEMPT, INSTANCE_TYPE, MAX_RUNTIME


def step_name(arm: str, seed: int) -> str:
    return f"Train-{arm}-{seed}"


def training_step(blueprint: Blueprint, data: Uri, *, arm_name: str, seed: int) -> Step:
    """One arm with one seed, on the training data at that URI."""
    workload, deployment = blueprint.workload, blueprint.deployment
    arm = workload.arms[arm_name]
    program = workload.kind.training_program(workload, arm_name, seed)
    image = image_of(deployment, arm)
    instance_type = arm.instance_type or parameter(INSTANCE_TYPE)
    request: dict[str, Any] = {
        "AlgorithmSpecification": {
            "TrainingImage": image,
            "TrainingInputMode": "File",
            "MetricDefinitions": [
                {"Name": name, "Regex": regex} for name, regex in program.metrics.items()
            ],
        },
        "HyperParameters": {
            **program.hyperparameters,
            **toolkit_parameters(deployment, blueprint.sources, program.entry),
            **arm_hyperparameters(arm, program.entry),
        },
        # The resources are no part of the step cache's key, but a timing taken on one instance
        # type says nothing about another: naming the type here makes the cache tell them apart.
        "Environment": {
            INSTANCE_TYPE_VARIABLE: instance_type,
            # For the evidence: no container knows what it was started from.
            IMAGE_VARIABLE: image,
            "PYTHONUNBUFFERED": "1",
            **program.environment,
            **_candidate_environment(arm_name),
            **compile_cache_environment(workload, arm),
            **spot_environment(workload, arm),
            **neuron_environment(deployment, workload, arm_name, arm),
        },
        "InputDataConfig": [
            channel(workload.kind.data_channel, data),
            *code_channels(deployment, blueprint.sources),
        ],
        "OutputDataConfig": {
            "S3OutputPath": deployment.uri("workloads", workload.name, "training"),
            **output_key(deployment),
        },
        "ResourceConfig": {
            "InstanceType": instance_type,
            "InstanceCount": arm.instance_count,
            "VolumeSizeInGB": workload.compute.volume_gb,
            # Of the declared type; `volume_key_faults` refuses a parameter of the other kind.
            **volume_key(deployment, arm.instance_type or workload.compute.instance_type),
        },
        "RoleArn": deployment.training_role_arn,
        "StoppingCondition": {
            "MaxRuntimeInSeconds": parameter(MAX_RUNTIME),
            **spot_limits(arm),
        },
        **spot_members(arm),
        **checkpoint_members(deployment, workload, arm_name, arm, seed),
        **training_network(deployment, arm.instance_count),
        **_observation(deployment, workload, arm),
        "Tags": training_tags(deployment, workload, arm_name, arm),
    }
    return Step(
        step_name(arm_name, seed),
        TRAINING,
        request,
        cache=blueprint.training_cache,
        retry_policies=job_retries(workload.compute),
        description=workload.kind.job_in_words(workload, arm_name, seed),
    )


def _candidate_environment(arm_name: str) -> dict[str, Any]:
    """What a candidate's job is told so that its end never costs the baseline's release, and so
    that one that was lost is not taken from the cache for ever. The baseline's job just fails."""
    if arm_name == BASELINE_ARM:
        return {}
    return {
        TIME_LIMIT_VARIABLE: join("", [parameter(MAX_RUNTIME)]),
        ATTEMPT_VARIABLE: parameter(ATTEMPT),
    }


def model_uri(step: Step) -> Expression:
    return step_property(step.name, "ModelArtifacts.S3ModelArtifacts")


def evidence_uri(step: Step) -> Expression:
    """The archive of SM_OUTPUT_DATA_DIR: no property of a training job holds its address."""
    place = step_property(step.name, "OutputDataConfig.S3OutputPath")
    job = step_property(step.name, "TrainingJobName")
    return join("/", [place, job, "output", OUTPUT_ARCHIVE])


def _observation(deployment: Deployment, workload: Workload, arm: Arm) -> dict[str, Any]:
    """SageMaker's profiler and debugger. Both slow the very steps that are timed, so what is not
    asked for is turned off where the service would turn it on by itself."""
    output = deployment.uri("workloads", workload.name, "training")
    profiler: dict[str, Any] = {"DisableProfiler": not arm.profiler}
    members = {"ProfilerConfig": profiler}
    if arm.profiler:
        profiler["S3OutputPath"] = output
    if arm.debugger:
        members["DebugHookConfig"] = {"S3OutputPath": output, "CollectionConfigurations": []}
    return members
