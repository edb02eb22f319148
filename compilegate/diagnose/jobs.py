"""Jobs that look at a workload instead of training it, and what they leave.

One profiles an arm; the doctor's examine an image and an instance each. They are training jobs' own
requests: same machine, image, network and role. Pure, but for reading an archive.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from compilegate.document.graph import ancestors, build_graph
from compilegate.document.model import Definition, Step
from compilegate.document.step_types import TRAINING
from compilegate.errors import CompilegateError
from compilegate.job import contract

PROGRAM = "compilegate/job/doctor/program.py"
"""Path of the doctor's program in the training code's archive."""
MOST_SECONDS = 1800
MOST_BYTES = 4 * 1024**2
_ARM_TAG = "compilegate:arm"
_CODE_CHANNEL = "code"
_HYPERPARAMETERS = (
    *("sagemaker_submit_directory", "sagemaker_region", "sagemaker_container_log_level"),
    contract.TRAINING_COMPILER_HYPERPARAMETER,
    contract.TRAINING_COMPILER_DEBUG_HYPERPARAMETER,
)
"""Hyperparameters that a job without data and arguments still needs: where its code is, and the
switches of Training Compiler, without which nobody could tell whether it is there."""
_VARIABLES = (contract.IMAGE_VARIABLE, contract.INSTANCE_TYPE_VARIABLE, "PYTHONUNBUFFERED")
_NO_CHECKPOINTS = ("CheckpointConfig", "EnableManagedSpotTraining")


class NoSuchArmError(CompilegateError):
    """The definition trains no such arm."""


class OutputError(CompilegateError):
    """What a job left holds no profile, or no answer of the doctor's."""


def profile_definition(workload: Definition, arm: str, steps: int) -> Definition:
    """The first training job of the arm and what it waits for. A variable has it end after a few
    dozen steps and leave a profile instead of a model. Raises NoSuchArmError."""
    jobs = _training_jobs(workload)
    if (job := jobs.get(arm)) is None:
        raise NoSuchArmError(f"--arm is {arm!r}, expected {', '.join(jobs)}")
    environment = {**job.arguments.get("Environment", {}), contract.PROFILE_VARIABLE: str(steps)}
    profiled = replace(
        job,
        arguments={**_without(job.arguments, *_NO_CHECKPOINTS), "Environment": environment},
        cache=None,  # an earlier profile is no result
        description=f"{job.description or job.name}: {steps} steps, to be profiled",
    )
    needed = ancestors(build_graph(workload), job.name)
    reached = (each for each in workload.steps if each is job or each.name in needed)
    return replace(workload, steps=tuple(profiled if each is job else each for each in reached))


def doctor_definition(workload: Definition, arms: frozenset[str] | None = None) -> Definition:
    """A job for each image and instance that the training jobs have, named after the first arm that
    has them. `arms` are those to take, by default all."""
    steps: dict[str, Step] = {}
    for arm, job in _training_jobs(workload).items():
        if arms is None or arm in arms:
            step = _examining(job, arm)
            place = _only(step.arguments, "AlgorithmSpecification", "ResourceConfig")
            switches = _only(step.arguments["HyperParameters"], *_HYPERPARAMETERS)
            steps.setdefault(json.dumps([place, switches], sort_keys=True), step)
    return replace(workload, steps=tuple(steps.values()))


def _training_jobs(workload: Definition) -> dict[str, Step]:
    """The first training job by arm; all jobs of an arm have one image and instance."""
    jobs: dict[str, Step] = {}
    for step in workload.steps:
        for tag in step.arguments.get("Tags", []) if step.type == TRAINING else []:
            if tag["Key"] == _ARM_TAG:
                jobs.setdefault(tag["Value"], step)
    return jobs


def _examining(job: Step, arm: str) -> Step:
    request, algorithm = job.arguments, job.arguments["AlgorithmSpecification"]
    channels = request.get("InputDataConfig", [])
    code = [each for each in channels if each["ChannelName"] == _CODE_CHANNEL]
    return Step(
        f"Doctor-{arm}",
        TRAINING,
        {
            **_without(request, *_NO_CHECKPOINTS, "DebugHookConfig", "InputDataConfig"),
            "AlgorithmSpecification": _without(algorithm, "MetricDefinitions"),
            "HyperParameters": {
                **_only(request["HyperParameters"], *_HYPERPARAMETERS),
                "sagemaker_program": json.dumps(PROGRAM),
            },
            "Environment": _only(request["Environment"], *_VARIABLES),
            **({"InputDataConfig": code} if code else {}),
            "ResourceConfig": {**request["ResourceConfig"], "InstanceCount": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": MOST_SECONDS},
        },
        retry_policies=job.retry_policies,
        description=f"What the image and the instance of arm {arm} have and lack",
    )


def _only(table: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: table[key] for key in keys if key in table}


def _without(table: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}


def read_answer(archive: Path) -> tuple[Any, str]:
    """What a doctor's job left, as `compilegate doctor` prints it with --json and without. Raises
    OutputError."""
    text = read_output(archive, contract.DOCTOR_TEXT_FILE).decode("utf-8", errors="replace")
    try:
        return json.loads(read_output(archive, contract.DOCTOR_FILE)), text
    except ValueError as error:
        raise OutputError(f"{archive}: {contract.DOCTOR_FILE} cannot be read: {error}") from error


def read_output(archive: Path, name: str) -> bytes:
    """One file of a job's output archive, without unpacking it. Raises OutputError."""
    try:
        with tarfile.open(archive, "r:gz") as packed:
            for member in packed:
                if not member.isreg() or member.name.removeprefix("./") != name:
                    continue
                if member.size > MOST_BYTES:
                    has = f"{name} has {member.size} bytes"
                    raise OutputError(f"{archive}: {has}, expected {MOST_BYTES} or fewer")
                file = packed.extractfile(member)
                if file is not None:
                    return file.read()
    except (OSError, tarfile.TarError, EOFError) as error:
        raise OutputError(f"{archive} cannot be read: {error}") from error
    raise OutputError(f"{archive} has no {name}: its job was started for something else")
