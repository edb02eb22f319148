"""From the definition of a workload to one that profiles an arm: its own training job, what that
job waits for, and nothing after it. Pure.

The job is the arm's, on the same machine, in the same image, with the same data. A variable has it
end after a few dozen steps and leave a profile instead of a model.
"""

from __future__ import annotations

from dataclasses import replace

from compilegate.document.graph import build_graph
from compilegate.document.model import Definition, Step
from compilegate.document.step_types import TRAINING
from compilegate.errors import CompilegateError
from compilegate.job.names import PROFILE_VARIABLE

_ARM_TAG = "compilegate:arm"
_LEFT_OUT = ("CheckpointConfig", "EnableManagedSpotTraining")


class NoSuchArmError(CompilegateError):
    """The definition trains no such arm."""


def profile_definition(workload: Definition, arm: str, steps: int) -> tuple[Definition, str]:
    """The definition, and the name of the step that leaves the profile: the arm's first seed.
    Raises NoSuchArmError."""
    graph = build_graph(workload)
    arms = {each.name: _arm(each) for each in workload.steps}
    name = next((step for step, found in arms.items() if found == arm), None)
    if name is None:
        allowed = ", ".join(dict.fromkeys(each for each in arms.values() if each is not None))
        raise NoSuchArmError(f"--arm: found {arm!r}, allowed: {allowed}")
    needed, waiting = {name}, [name]
    while waiting:
        for parent in graph.parents(waiting.pop()):
            if parent not in needed:
                needed.add(parent)
                waiting.append(parent)
    return (
        Definition(
            parameters=workload.parameters,
            steps=tuple(
                _profiled(each, steps) if each.name == name else each
                for each in workload.steps
                if each.name in needed
            ),
            max_parallel_steps=workload.max_parallel_steps,
        ),
        name,
    )


def _arm(step: Step) -> str | None:
    """The arm that a training job is of, by its tags; None for any other step."""
    if step.type != TRAINING:
        return None
    tags = step.arguments.get("Tags", [])
    return next((each["Value"] for each in tags if each["Key"] == _ARM_TAG), None)


def _profiled(step: Step, steps: int) -> Step:
    request = {key: value for key, value in step.arguments.items() if key not in _LEFT_OUT}
    return replace(
        step,
        arguments={
            **request,
            "Environment": {**request.get("Environment", {}), PROFILE_VARIABLE: str(steps)},
        },
        cache=None,  # of a profile, an earlier one is no result
        description=f"{step.description or step.name}: {steps} steps, to be profiled",
    )
