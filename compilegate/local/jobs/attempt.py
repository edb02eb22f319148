"""One attempt at a job step: stage, install, run, collect, and say how it went."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from compilegate.execution.failure import StepFailure
from compilegate.job.errors import killed_by
from compilegate.local.aws.variables import NO_VARIABLES, JobVariables
from compilegate.local.errors import NO_SPACE, CapacityError, StepError
from compilegate.local.home.images import Environment
from compilegate.local.jobs.environment import (
    Wanted,
    base_environment,
    hugging_face_cache,
    image_python,
    make_environment,
    one_at_a_time,
    pip_cache,
    wanted_by,
)
from compilegate.local.jobs.job import Job, JobOutcome
from compilegate.local.jobs.launcher import JobCommand, JobEnd, RunningJob
from compilegate.local.jobs.leases import CoreLease, GpuLease, PortLease
from compilegate.local.jobs.printed import PrintedAt, final_metrics
from compilegate.local.jobs.sandbox import HostFolder

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

_SHELL_SIGNAL = 128
"""A shell's exit status for a program that a signal killed is this and the signal's number."""
_MARKER = "complete"
"""The last file of an environment: without it, its installation was interrupted."""

AttemptStatus = Literal["Completed", "Failed", "Stopped"]


@dataclass(frozen=True)
class AttemptResult:
    """How one attempt ended."""

    status: AttemptStatus
    exception_type: str | None
    """The exception that the service would raise for a failed attempt."""
    failure: StepFailure | None
    """Why it did not complete; or that its training failed, where the job recorded that."""
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class JobSlot:
    """What a job runs with: an environment, cores, GPUs, and a handle to stop it by."""

    environment: Environment
    cores: CoreLease
    gpus: GpuLease
    running: RunningJob
    grace_seconds: float
    home: Path
    """Where the environments are that sources have had installed."""
    variables: JobVariables = NO_VARIABLES
    """What the execution adds to the job's environment."""


@dataclass(frozen=True)
class _Failure:
    exception_type: str
    sentence: str
    last_lines: Sequence[str] = ()


def run_attempt(job: Job, slot: JobSlot, on_line: Callable[[str], None]) -> AttemptResult:
    """Run one attempt to its end. A failure of any kind is a result, not an exception."""
    started = time.time()
    with contextlib.closing(_Attempt(job, slot, on_line)) as attempt:
        failure = attempt.run()
    end, log = attempt.end, job.sandbox.log
    status: AttemptStatus = "Completed" if failure is None else "Failed"
    if end is not None and end.reason in {"stopped", "timeout"}:
        status = "Stopped"
    why = None
    if failure is not None:
        why = StepFailure(failure.sentence, log, tuple(failure.last_lines))
    elif (recorded := job.recorded_failure()) is not None:
        why = StepFailure(recorded, log)
    outcome = JobOutcome(
        status=status,
        started=started,
        ended=time.time(),
        failure=None if failure is None else failure.sentence,
        metrics=attempt.metrics,
        timed_out=end is not None and end.reason == "timeout",
    )
    return AttemptResult(
        status=status,
        exception_type=failure.exception_type if failure and status == "Failed" else None,
        failure=why,
        properties=job.describe(outcome),
    )


class _Attempt:
    def __init__(self, job: Job, slot: JobSlot, on_line: Callable[[str], None]) -> None:
        self.metrics: Sequence[Mapping[str, Any]] = ()
        self.end: JobEnd | None = None
        """If a process of the job came to one."""
        self._job, self._slot, self._on_line = job, slot, on_line
        self._port: PortLease | None = None

    def close(self) -> None:
        """Leave nothing of it but the job's folders."""
        if self._port is not None:
            self._port.release()
        self._job.sandbox.drop_scratch()

    def run(self) -> _Failure | None:
        """Run it; returns why it did not complete, if it did not."""
        try:
            return self._run()
        except CapacityError as error:
            return _Failure(CAPACITY_ERROR, str(error))
        except StepError as error:
            return _Failure(CLIENT_ERROR, str(error))
        except MemoryError:
            return _Failure(CAPACITY_ERROR, "no memory left to prepare or collect the job")
        except OSError as error:
            if error.errno not in NO_SPACE:
                return _Failure(SERVICE_FAULT, f"the job could not be run: {error}")
            where = error.filename or self._job.sandbox.folder
            return _Failure(CAPACITY_ERROR, f"no space left for {where}")

    def _run(self) -> _Failure | None:
        job, slot = self._job, self._slot
        self._port = PortLease()
        job.sandbox.clear()
        inputs = _InputGuard(job.stage(slot.environment))
        below = None
        wanted = wanted_by(job.source_folder(), slot.environment)
        if wanted is not None:
            below = slot.home / "environments" / wanted.digest
            self.end = self._install(wanted, below, self._port)
            if self.end is not None:
                return _installation_failure(wanted, self.end)
        folder = job.sandbox.scratch / "python"
        seen_at = job.sandbox.inside(folder)
        python = make_environment(folder, seen_at, image_python(slot.environment), below)
        host = None if job.sandbox.own_root else HostFolder()
        printed_at = PrintedAt()
        command = self._command(python, self._port, () if below is None else (below,))
        self.end = slot.running.run(command, job.sandbox.log, self._on_line, printed_at)
        inputs.check()
        if host is not None:
            host.check()
        if self.end.reason != "stopped":
            job.collect(self.end)
            metrics = final_metrics(
                job.metrics,
                job.sandbox.log,
                printed_at,
                lambda: slot.running.stopping,
                self._note,
            )
            if metrics is None:
                self.end = replace(self.end, reason="stopped")
            self.metrics = metrics or ()
        return _failure(self.end, job)

    def _install(self, wanted: Wanted, folder: Path, port: PortLease) -> JobEnd | None:
        """Have what the source needs in the environment `folder`, which jobs share.

        Returns the end of an installation that did not succeed. pip runs as the job does, because
        what it runs is the source's.
        """
        running = self._slot.running
        lock = self._slot.home / "locks" / f"environment-{wanted.digest}.lock"
        with one_at_a_time(lock, lambda: running.stopping) as is_mine:
            if not is_mine:
                return JobEnd("stopped", 0, "", ())
            if (folder / _MARKER).is_file():
                return None
            shutil.rmtree(folder, ignore_errors=True)
            python = make_environment(folder, str(folder), image_python(self._slot.environment))
            self._on_line(f"installing what {wanted.files} of the source names")
            command = replace(
                self._command(python, port, shared=(folder,)),
                argv=[str(python.python), "-m", "pip", *wanted.arguments, "--no-input"],
            )
            end = running.run(command, self._job.sandbox.log, self._on_line)
            if end.succeeded:
                (folder / _MARKER).touch()
            else:
                shutil.rmtree(folder, ignore_errors=True)
            return None if end.succeeded else end

    def _command(
        self,
        python: Environment,
        port: PortLease,
        shown: Sequence[Path] = (),
        shared: Sequence[Path] = (),
    ) -> JobCommand:
        """The job's own command in this environment.

        `shown` and `shared` are folders that it must find even where all around them is hidden,
        and those that it may also write to.
        """
        job, slot = self._job, self._slot
        sandbox, cores, gpus = job.sandbox, max(1, len(slot.cores.cores)), len(slot.gpus.names)
        shared = (*shared, hugging_face_cache(os.environ), pip_cache(os.environ))
        for folder in shared:
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
        image = slot.environment
        shown = (*shown, *image_python(image).folders, image.python.parent.parent, *_project())
        variables = base_environment(sandbox, python, cores, port.number, os.environ)
        return JobCommand(
            argv=job.argv(python, cores, gpus),
            working_directory=job.working_directory(),
            environment={
                **slot.variables.merged(variables, job.variables(cores, gpus)),
                **slot.gpus.variables,
            },
            cpus=slot.cores.cpus,
            max_seconds=job.max_seconds,
            grace_seconds=slot.grace_seconds,
            alias=None if sandbox.own_root else sandbox.alias,
            view=sandbox.view(shown, shared),
            locks=(*slot.cores.descriptors, *slot.gpus.descriptors, *port.descriptors),
        )

    def _note(self, sentence: str) -> None:
        """Say what the job itself did not, in its log too."""
        self._on_line(sentence)
        with self._job.sandbox.log.open("a", encoding="utf-8") as log:
            log.write(f"compilegate: {sentence}\n")


def _project() -> Iterator[Path]:
    """The folder that the runner was started in: a project below /tmp is there for jobs, as one
    elsewhere is."""
    with contextlib.suppress(OSError):
        yield Path.cwd()


def _installation_failure(wanted: Wanted, end: JobEnd) -> _Failure:
    if end.reason == "stopped":
        return _Failure(ALGORITHM_ERROR, "the job was stopped", end.last_lines)
    errors = [line for line in end.last_lines if line.startswith("ERROR:")]
    why = errors[-1].removeprefix("ERROR:").strip() if errors else end.error or f"code {end.code}"
    sentence = f"what {wanted.files} of its source names could not be installed: {why}"
    return _Failure(ALGORITHM_ERROR, sentence, end.last_lines)


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
    kind, sentence = ALGORITHM_ERROR, f"exit code {end.code}"
    if end.code < 0:
        kind, sentence = INTERNAL_ERROR, killed_by(-end.code)
    elif end.code > _SHELL_SIGNAL and end.code - _SHELL_SIGNAL in set(signal.Signals):
        sentence = killed_by(end.code - _SHELL_SIGNAL)  # as a shell, or our launcher, passes it on
    message = job.message()
    sentence = f"{sentence}: {message}" if message else sentence
    return _Failure(kind, sentence, end.last_lines)


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
