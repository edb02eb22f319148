"""One attempt at a job step: stage, run, collect, and say how it went."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from compilegate.execution.failure import StepFailure
from compilegate.local.aws.variables import NO_VARIABLES, JobVariables
from compilegate.local.errors import CapacityError, StepError
from compilegate.local.home.images import Environment
from compilegate.local.jobs.environment import base_environment, temporary_folder
from compilegate.local.jobs.job import Job, JobOutcome
from compilegate.local.jobs.launcher import JobCommand, JobEnd, RunningJob
from compilegate.local.jobs.leases.cores import CoreLease
from compilegate.local.jobs.leases.gpus import GpuLease
from compilegate.local.jobs.metrics import MetricCatcher

SERVICE_FAULT = "Step.SERVICE_FAULT"
"""The job's process could not be started."""
INTERNAL_ERROR = "SageMaker.JOB_INTERNAL_ERROR"
"""It was killed by a signal that the runner did not send."""
CAPACITY_ERROR = "SageMaker.CAPACITY_ERROR"
"""No disk space or memory was left around it."""
ALGORITHM_ERROR = "AlgorithmError"
"""Its program ended with an exit code above zero."""
CLIENT_ERROR = "ClientError"
"""An input is missing, or the request is wrong."""

AttemptStatus = Literal["Completed", "Failed", "Stopped"]


@dataclass(frozen=True)
class AttemptResult:
    """How one attempt ended."""

    status: AttemptStatus
    exception_type: str | None
    """The exception that the service would raise for a failed attempt."""
    failure: StepFailure | None
    """Why it did not complete."""
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class _Failure:
    exception_type: str
    sentence: str
    last_lines: Sequence[str] = ()

    def told(self, log: Path) -> StepFailure:
        return StepFailure(self.sentence, log, tuple(self.last_lines))


@dataclass(frozen=True)
class JobSlot:
    """What a job runs with: an environment, cores, GPUs, and a handle to stop it by."""

    environment: Environment
    cores: CoreLease
    gpus: GpuLease
    running: RunningJob
    grace_seconds: float
    variables: JobVariables = NO_VARIABLES
    """What the execution adds to the job's environment."""


def run_attempt(job: Job, slot: JobSlot, on_line: Callable[[str], None]) -> AttemptResult:
    """Run one attempt to its end. A failure of any kind is a result, not an exception."""
    catcher = MetricCatcher(job.metrics)
    started = time.time()

    def read_line(line: str) -> None:
        catcher.read(line, time.time())
        on_line(line)

    end, failure = _run(job, slot, read_line)
    job.sandbox.drop_scratch()
    status: AttemptStatus = "Completed" if failure is None else "Failed"
    if end is not None and end.reason in {"stopped", "timeout"}:
        status = "Stopped"
    outcome = JobOutcome(
        status=status,
        started=started,
        ended=time.time(),
        failure=None if failure is None else failure.sentence,
        metrics=catcher.final_metrics(),
        timed_out=end is not None and end.reason == "timeout",
    )
    return AttemptResult(
        status=status,
        exception_type=failure.exception_type if failure and status == "Failed" else None,
        failure=None if failure is None else failure.told(job.sandbox.log),
        properties=job.describe(outcome),
    )


def _run(
    job: Job, slot: JobSlot, read_line: Callable[[str], None]
) -> tuple[JobEnd | None, _Failure | None]:
    end: JobEnd | None = None
    try:
        job.sandbox.clear()
        inputs = _InputGuard(job.stage(slot.environment))
        end = slot.running.run(_command(job, slot), job.sandbox.log, read_line)
        inputs.check()
        if end.reason != "stopped":
            job.collect(end)
        return end, _failure(end, job)
    except CapacityError as error:
        return end, _Failure(CAPACITY_ERROR, str(error))
    except StepError as error:
        return end, _Failure(CLIENT_ERROR, str(error))
    except MemoryError:
        return end, _Failure(CAPACITY_ERROR, "no memory left to prepare or collect the job")
    except OSError as error:
        return end, _Failure(SERVICE_FAULT, f"the job could not be run: {error}")


def _command(job: Job, slot: JobSlot) -> JobCommand:
    cores, gpus = len(slot.cores.cores), slot.gpus
    variables = base_environment(job.sandbox, slot.environment, cores, os.environ)
    return JobCommand(
        argv=job.argv(slot.environment),
        working_directory=job.working_directory(),
        environment={
            **slot.variables.merged(variables, job.variables(cores, len(gpus.names))),
            **gpus.variables,
        },
        cpus=slot.cores.cpus,
        max_seconds=job.max_seconds,
        grace_seconds=slot.grace_seconds,
        temporary_folder=temporary_folder(job.sandbox),
        locks=(*slot.cores.descriptors, *gpus.descriptors),
    )


def _failure(end: JobEnd, job: Job) -> _Failure | None:
    if end.succeeded:
        return None
    if end.reason == "not started":
        return _Failure(SERVICE_FAULT, f"the job could not be started: {end.error}")
    if end.reason == "timeout":
        sentence = f"the job ran longer than MaxRuntimeInSeconds ({job.max_seconds} s)"
        return _Failure(ALGORITHM_ERROR, sentence, end.last_lines)
    if end.reason == "stopped":
        return _Failure(ALGORITHM_ERROR, "the job was stopped", end.last_lines)
    kind, sentence = (
        (ALGORITHM_ERROR, f"exit code {end.code}")
        if end.code > 0
        else (INTERNAL_ERROR, f"killed by {_signal_name(-end.code)}")
    )
    message = job.message()
    sentence = f"{sentence}: {message}" if message else sentence
    return _Failure(kind, sentence, end.last_lines)


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


class _InputGuard:
    """Notices when a job wrote into an input that it shares with the object store."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._before = {
            path: (status.st_size, status.st_mtime_ns)
            for path in files
            if (status := path.stat()).st_nlink > 1
        }

    def check(self) -> None:
        for path, before in self._before.items():
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # the job removed its own link, which harms nobody
            if (status.st_size, status.st_mtime_ns) != before:
                raise StepError(
                    f"the job wrote into its input {path}, which it shares with the object "
                    "store; put the stored object back"
                )
