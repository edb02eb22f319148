"""AWS Neuron in a definition: where compiled graphs are kept, and the step that makes them.

Neuron compiles a graph when a step first meets it, one after the other. `neuron_parallel_compile`
goes through a few steps without calculating anything, and then compiles every graph it met side by
side. That is a job of its own before an arm's training jobs, of which there is one for each seed
and which all have the same graphs:

    Prepare -> Extract-ARM -> Train-ARM-SEED ...

It fills Neuron's own cache, a prefix of the arm's in S3. Where it finds nothing to fill, training
compiles as it goes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compilegate.document.model import Dependency, Step
from compilegate.document.step_types import TRAINING
from compilegate.job import names
from compilegate.job.compilers.declaration import EXTRACTION_STEPS, PRECOMPILE
from compilegate.pipelines.deployment import Deployment
from compilegate.pipelines.requests.checkpoints import spot_environment
from compilegate.pipelines.requests.retries import job_retries
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.workload import Arm, Stack, Workload

EXTRACTION = "compilegate/job/launch/neuron_extraction.py"
"""What runs the training program under `neuron_parallel_compile`."""

_CACHE = "neuron-compile-cache"


def step_name(arm: str) -> str:
    return f"Extract-{arm}"


def neuron_environment(
    deployment: Deployment, workload: Workload, arm_name: str, arm: Arm
) -> dict[str, str]:
    """Where Neuron's cache is. Jobs in network isolation cannot reach it, and have none.

    Not in the arm's own folder of checkpoints: of a spot arm the service would fetch all of it.
    """
    if arm.compiler != "neuron" or deployment.isolated:
        return {}
    cache = deployment.uri("workloads", workload.name, "checkpoints", _CACHE, arm_name)
    return {names.NEURON_CACHE_VARIABLE: cache}


def isolation_faults(deployment: Deployment, arms: Mapping[str, Arm]) -> list[str]:
    """A sentence for each arm whose extraction could leave nothing behind."""
    return [
        f"arms.{name}.neuron.precompile is true, and jobs in network isolation cannot reach the "
        "cache that it fills, allowed: false there, or a network without isolation"
        for name, arm in arms.items()
        if deployment.isolated and _extraction(arm) is not None
    ]


def extraction_steps(blueprint: Blueprint, trained: Mapping[tuple[str, int], Step]) -> list[Step]:
    """One step for each arm that wants it."""
    found = []
    for name, arm in blueprint.workload.arms.items():
        declared = _extraction(arm)
        if declared is None:
            continue
        training = [step for (of_arm, _), step in trained.items() if of_arm == name]
        found.append(_extraction_step(blueprint, name, _steps_of(declared), training[0]))
    return found


def after_extraction(
    trained: Mapping[tuple[str, int], Step], extraction: Sequence[Step]
) -> list[Step]:
    """The training steps, each of which waits for its arm's extraction, where there is one."""
    extracted = {step.name for step in extraction}
    return [
        replace(step, depends_on=(Dependency(step_name(arm)),))
        if step_name(arm) in extracted
        else step
        for (arm, _), step in trained.items()
    ]


def _extraction_step(blueprint: Blueprint, arm_name: str, steps: int, training: Step) -> Step:
    """The training job's own request, so that its graphs are the same, but for a few steps.

    Without checkpoints: resumed from one, the job might have no step left to take a graph from.
    """
    arm = blueprint.workload.arms[arm_name]
    environment: dict[str, Any] = training.arguments["Environment"]
    hyperparameters: dict[str, str] = training.arguments["HyperParameters"]
    algorithm: dict[str, Any] = training.arguments["AlgorithmSpecification"]
    request = {
        **{key: each for key, each in training.arguments.items() if key != "CheckpointConfig"},
        "Environment": {
            key: each
            for key, each in environment.items()
            if key not in spot_environment(blueprint.workload, arm)
        },
        # What it prints is no metric: nothing is calculated.
        "AlgorithmSpecification": {
            key: value for key, value in algorithm.items() if key != "MetricDefinitions"
        },
        "HyperParameters": {
            **hyperparameters,
            "sagemaker_program": json.dumps(EXTRACTION),
            "training_script": json.loads(hyperparameters["sagemaker_program"]),
            "max_steps": str(steps),
            names.PARITY_STEPS: "0",
            names.SPEED_PROBE_SECONDS: "0",
            "on_failure": "stop",
        },
    }
    return Step(
        step_name(arm_name),
        TRAINING,
        request,
        cache=blueprint.cache,
        retry_policies=job_retries(blueprint.workload.compute),
        description=f"Compile the graphs of arm {arm_name} before its training",
    )


def _extraction(arm: Arm) -> Stack | None:
    """What is declared of the extraction; None for an arm without one."""
    declared = arm.stack
    return declared if declared is not None and declared.setting(PRECOMPILE) else None


def _steps_of(declared: Stack) -> int:
    return int(declared.setting(EXTRACTION_STEPS) or 0)
