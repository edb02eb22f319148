"""What a job of a program of your own is told of itself, as compilegate.job reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from compilegate.job import names
from compilegate.workload.arms import Arm

if TYPE_CHECKING:
    from compilegate.workload.settled import Workload

LONGEST_VARIABLE = 512
"""Characters that the service takes in one."""


def job_variables(workload: Workload, arm_name: str, seed: int) -> dict[str, str]:
    """The fields of `compilegate.job.script.told.Told` by name, as JSON in one variable or more.

    What is left out has its default there. The launcher adds what it knows of the job's
    hyperparameters.
    """
    arm = workload.arms.get(arm_name)
    told: dict[str, Any] = {names.SEED: seed}
    if arm is not None:
        told |= _of_arm(arm) | _of_probes(workload, arm_name, arm)
        if workload.evaluates_on != names.EVALUATION_PLACES[0]:
            told[names.EVALUATE_ON] = workload.evaluates_on
    text = json.dumps(told, separators=(",", ":"), allow_nan=False)
    size = LONGEST_VARIABLE
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    return {names.job_variable(number): part for number, part in enumerate(parts, start=1)}


def _of_arm(arm: Arm) -> dict[str, Any]:
    told: dict[str, Any] = {
        names.COMPILER: arm.compiler,
        names.BATCH_SIZE: arm.batch_size,
        names.LEARNING_RATE: arm.learning_rate,
        names.PRECISION: arm.precision,
    }
    if arm.replicas > 1:
        told["replicas"] = arm.replicas
    if arm.compiler_options:
        told["options"] = dict(arm.compiler_options)
    return told


def _of_probes(workload: Workload, arm_name: str, arm: Arm) -> dict[str, Any]:
    """Only where there is something to compare: other steps then train no baseline again."""
    told: dict[str, Any] = {}
    if arm.compiler != "eager":
        told[names.PARITY_STEPS] = workload.gate.parity.steps
        if arm_name != names.BASELINE_ARM and workload.gate.parity.job_goes_on:
            told["on_wrong"] = names.ON_WRONG[1]
    if workload.keeps_compiled(arm):
        told["compile_cache_megabytes"] = workload.compile_cache.max_megabytes
    if arm_name != names.BASELINE_ARM:
        baseline = workload.arms[names.BASELINE_ARM]
        told["baseline"] = {
            names.COMPILER: baseline.compiler,
            names.BATCH_SIZE: baseline.batch_size,
            names.PRECISION: baseline.precision,
        }
        if workload.gate.speed_probe_seconds is not None:
            told[names.SPEED_PROBE_SECONDS] = workload.gate.speed_probe_seconds
    return told
