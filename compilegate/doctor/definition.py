"""From the definition of a workload to that of its doctor's: a job for each image and instance.

Each is a training job's own request, so that it runs on the same machine, in the same image,
network and role; only its program is another, and it needs no data. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compilegate.document.model import Definition, Step
from compilegate.document.step_types import TRAINING
from compilegate.job import names

PROGRAM = "compilegate/job/doctor/program.py"
"""Where the training code's archive has it."""
MOST_SECONDS = 1800
_CODE_CHANNEL = "code"
_ARM_TAG = "compilegate:arm"

_HYPERPARAMETERS = (
    *("sagemaker_submit_directory", "sagemaker_region", "sagemaker_container_log_level"),
    names.TRAINING_COMPILER_HYPERPARAMETER,
    names.TRAINING_COMPILER_DEBUG_HYPERPARAMETER,
)
"""Those that a job without data and arguments still needs: where its code is, and the switches of
Training Compiler, without which nobody could tell whether it is there."""
_VARIABLES = (names.IMAGE_VARIABLE, names.INSTANCE_TYPE_VARIABLE, "PYTHONUNBUFFERED")
_LEFT_OUT = ("CheckpointConfig", "EnableManagedSpotTraining", "DebugHookConfig")


def step_name(arm: str) -> str:
    """The step that examines what this arm trains in."""
    return f"Doctor-{arm}"


def doctor_definition(workload: Definition, arms: frozenset[str] | None = None) -> Definition:
    """A step for each image and instance that training jobs of the definition have, named after the
    first arm that has them. `arms` are those to take, by default all."""
    steps: dict[str, Step] = {}
    for step in workload.steps:
        arm = _arm(step)
        if arm is not None and (arms is None or arm in arms):
            examined = _examined(step, arm)
            steps.setdefault(_place(examined), examined)
    return Definition(
        parameters=workload.parameters,
        steps=tuple(steps.values()),
        max_parallel_steps=workload.max_parallel_steps,
    )


def _arm(step: Step) -> str | None:
    """The arm that a training job is of, by its tags; None for any other step."""
    if step.type != TRAINING:
        return None
    tags = step.arguments.get("Tags", [])
    return next((each["Value"] for each in tags if each["Key"] == _ARM_TAG), None)


def _place(step: Step) -> str:
    """What two arms have in common that need only one examination."""
    request = step.arguments
    switches = {key: request["HyperParameters"].get(key) for key in _HYPERPARAMETERS}
    where = [request["AlgorithmSpecification"], request["ResourceConfig"], switches]
    return json.dumps(where, sort_keys=True)


def _examined(step: Step, arm: str) -> Step:
    request = step.arguments
    kept = {key: value for key, value in request.items() if key not in _LEFT_OUT}
    channels = [
        each for each in request.get("InputDataConfig", []) if each["ChannelName"] == _CODE_CHANNEL
    ]
    return Step(
        step_name(arm),
        TRAINING,
        {
            **{key: value for key, value in kept.items() if key != "InputDataConfig"},
            "AlgorithmSpecification": _without(
                request["AlgorithmSpecification"], "MetricDefinitions"
            ),
            "HyperParameters": {
                **_only(request["HyperParameters"], _HYPERPARAMETERS),
                "sagemaker_program": json.dumps(PROGRAM),
            },
            "Environment": _only(request["Environment"], _VARIABLES),
            **({"InputDataConfig": channels} if channels else {}),
            "ResourceConfig": {**request["ResourceConfig"], "InstanceCount": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": MOST_SECONDS},
        },
        retry_policies=step.retry_policies,
        description=f"What the image and the instance of arm {arm} have and lack",
    )


def _only(table: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: table[key] for key in keys if key in table}


def _without(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != key}
