"""One attempt at a job step: stage, install, run, collect, report."""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from compilegate.execution.result import StepFailure
from compilegate.job.errors import killed_by
from compilegate.job.files import NO_SPACE
from compilegate.local.errors import StepError
from compilegate.local.home.images import Environment
from compilegate.local.jobs.environment import (
    JobVariables,
    Wanted,
    base_environment,
    image_python,
    make_environment,
    one_at_a_time,
    shared_caches,
    wanted_by,
)
from compilegate.local.jobs.job import Job, JobOutcome
from compilegate.local.jobs.launcher import JobCommand, JobEnd, RunningJob
from compilegate.local.jobs.leases import Core, Lease, lease_port
from compilegate.local.jobs.printed import final_metrics
from compilegate.local.jobs.sandbox import ML

SERVICE_FAULT = "Step.SERVICE_FAULT"
"""The job's process could not be started."""
INTERNAL_ERROR = "SageMaker.JOB_INTERNAL_ERROR"
"""Killed by a signal that the runner did not send."""
CAPACITY_ERROR = "SageMaker.CAPACITY_ERROR"
"""Out of disk space or memory around the job."""
ALGORITHM_ERROR = "AlgorithmError"
"""The program ended with an exit code above zero."""
CLIENT_ERROR = "ClientError"
"""An input is missing, or the request is wrong."""

_SHELL_SIGNAL = 128
"""A shell's exit status for a program that a signal killed is this and the signal's number."""
_MARKER = "complete"
"""The last file of an environment: without it, its installation was interrupted."""

_INPUT_CHANGED = (
    "the job wrote to its input {}, which is the stored object itself; restore that object"
)
HOST_CHANGED = (
    "the program wrote to {} of this machine, outside its sandbox: it names /opt/ml itself, and "
    "jobs here have no root of their own; that output is not stored. Take the folders from SM_* "
    "variables or arguments, or run on a machine whose kernel allows mount namespaces"
)

AttemptStatus = Literal["Completed", "Failed", "Stopped"]


@dataclass(frozen=True)
class AttemptResult:
    status: AttemptStatus
    exception_type: str | None
    """The exception that the service would raise for a failed attempt."""
    failure: StepFailure | None
    """Why it did not complete; or that its training failed, where the job recorded that."""
    properties: Mapping[str, Any]


class _AttemptError(Exception):
    def __init__(self, exception_type: str, why: str, last_lines: Sequence[str] = ()) -> None:
        super().__init__(why)
        self.exception_type = exception_type
        self.last_lines = tuple(last_lines)


@dataclass(kw_only=True)
class JobAttempt:
    """One attempt at a job, and what it runs with."""

    job: Job
    environment: Environment
    cores: Lease[Core]
    gpus: Lease[str]
    running: RunningJob
    """A handle to stop it by."""
    variables: JobVariables
    """What the execution adds to the job's environment."""
    gpu_variables: Mapping[str, str]
    """Has the job see its GPUs alone; empty on a machine without any."""
    grace_seconds: float
    home: Path
    """Folders of the environments that were installed for sources."""
    on_line: Callable[[str], None]
    """Is called with each line that the job prints."""
    _metrics: Sequence[Mapping[str, Any]] = ()
    _end: JobEnd | None = None
    """The exit, if a process of the job reached one."""

    @property
    def log(self) -> Path:
        return self.job.sandbox.log

    @property
    def cpus(self) -> tuple[int, ...]:
        return tuple(chain.from_iterable(self.cores.things))

    def run(self) -> AttemptResult:
        """Run it to its end. A failure of any kind is a result, not an exception."""
        started, job = time.time(), self.job
        failed = self._failure()
        reason = None if self._end is None else self._end.reason
        status: AttemptStatus = "Completed" if failed is None else "Failed"
        if reason in {"stopped", "timeout"}:
            status = "Stopped"
        failure = None
        if failed is not None:
            failure = StepFailure(str(failed), self.log, failed.last_lines)
        elif (recorded := job.recorded_failure()) is not None:
            failure = StepFailure(recorded, self.log)
        outcome = JobOutcome(
            status=status,
            started=started,
            ended=time.time(),
            failure=None if failed is None else str(failed),
            metrics=self._metrics,
            timed_out=reason == "timeout",
        )
        kind = failed.exception_type if failed and status == "Failed" else None
        return AttemptResult(status, kind, failure, job.describe(outcome))

    def _failure(self) -> _AttemptError | None:
        """Run it, and leave nothing of it but the job's folders; why it failed, if it did."""
        try:
            with lease_port() as port:
                self._run(port)
        except _AttemptError as failed:
            return failed
        except (StepError, OSError, MemoryError) as error:
            return _unready(error, self.job.sandbox.folder)
        finally:
            self.job.sandbox.drop_scratch()
        return None

    def _run(self, port: Lease[int]) -> None:
        job, sandbox = self.job, self.job.sandbox
        sandbox.clear()
        shared = [path for path in job.stage() if path.stat().st_nlink > 1]
        inputs = stamps(shared)
        below = None
        wanted = wanted_by(job.source_folder(), self.environment)
        if wanted is not None:
            below = self.home / "environments" / wanted.digest
            self._install(wanted, below, port)
        folder, image = sandbox.scratch / "python", image_python(self.environment)
        python = make_environment(folder, sandbox.inside(folder), image, below)
        host = None if sandbox.own_root else stamps(Path(ML).rglob("*"))
        command = self._command(python, port, () if below is None else (below,))
        self._end = self.running.run(command, self.log, self.on_line)
        check_unchanged(inputs, shared, _INPUT_CHANGED)
        if host is not None:
            check_unchanged(host, Path(ML).rglob("*"), HOST_CHANGED)
        if self._end.reason != "stopped":
            job.collect(self._end)
            self._metrics = final_metrics(job.metrics, self.log, self.on_line)
        if not self._end.succeeded:
            raise _failed(self._end, job)

    def _install(self, wanted: Wanted, folder: Path, port: Lease[int]) -> None:
        """Have what the source needs in the environment `folder`, which jobs share. pip runs as the
        job does, because what it runs is the source's."""
        lock = self.home / "locks" / f"environment-{wanted.digest}.lock"
        with one_at_a_time(lock, lambda: self.running.stopping) as is_mine:
            if not is_mine:
                self._end = JobEnd("stopped", 0)
                raise _failed(self._end, self.job)
            if (folder / _MARKER).is_file():
                return
            shutil.rmtree(folder, ignore_errors=True)
            python = make_environment(folder, str(folder), image_python(self.environment))
            self.on_line(f"installing the packages of {wanted.files} in the source")
            argv = [str(python), "-m", "pip", *wanted.arguments, "--no-input"]
            command = replace(self._command(python, port, (), (folder,)), argv=argv)
            self._end = self.running.run(command, self.log, self.on_line)
            if not self._end.succeeded:
                shutil.rmtree(folder, ignore_errors=True)
                raise _not_installed(wanted, self._end, self.job)
            (folder / _MARKER).touch()

    def _command(
        self, python: Path, port: Lease[int], shown: Sequence[Path], shared: Sequence[Path] = ()
    ) -> JobCommand:
        """The job's own command in this environment. `shown` and `shared` are folders that it must
        find even where all around them is hidden, and those that it may also write to."""
        job, sandbox = self.job, self.job.sandbox
        cores, gpus = len(self.cores.things), len(self.gpus.things)
        shared = (*shared, *shared_caches().values())
        for folder in shared:
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
        # A project below /tmp is there for jobs, as one elsewhere is.
        image = self.environment
        folders = (*image_python(image).folders, image.python.parent.parent, Path.cwd())
        base = base_environment(sandbox, python, cores, *port.things)
        return JobCommand(
            argv=job.argv(str(python), cores, gpus),
            working_directory=job.working_directory(),
            environment={
                **self.variables.merged(base, job.variables(cores, gpus)),
                **self.gpu_variables,
            },
            cpus=self.cpus,
            max_seconds=job.max_seconds,
            grace_seconds=self.grace_seconds,
            alias=None if sandbox.own_root else sandbox.alias,
            view=sandbox.view((*shown, *map(Path, folders)), shared),
            locks=(*self.cores.descriptors, *self.gpus.descriptors, *port.descriptors),
        )


def _unready(error: Exception, folder: Path) -> _AttemptError:
    if isinstance(error, StepError):
        return _AttemptError(CLIENT_ERROR, str(error))
    if isinstance(error, MemoryError):
        return _AttemptError(CAPACITY_ERROR, "no memory left to prepare or collect the job")
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        return _AttemptError(CAPACITY_ERROR, f"no space left for {error.filename or folder}")
    return _AttemptError(SERVICE_FAULT, f"the job could not be run: {error}")


def _not_installed(wanted: Wanted, end: JobEnd, job: Job) -> _AttemptError:
    if end.reason == "stopped":
        return _failed(end, job)
    errors = [line for line in end.last_lines if line.startswith("ERROR:")]
    why = errors[-1].removeprefix("ERROR:").strip() if errors else end.error or f"code {end.code}"
    sentence = f"the packages of {wanted.files} in its source could not be installed: {why}"
    return _AttemptError(ALGORITHM_ERROR, sentence, end.last_lines)


def _failed(end: JobEnd, job: Job) -> _AttemptError:
    if end.reason == "not started":
        return _AttemptError(SERVICE_FAULT, f"the job could not be started: {end.error}")
    kind, sentence = ALGORITHM_ERROR, f"exit code {end.code}"
    if end.reason == "timeout":
        sentence = f"the job ran longer than MaxRuntimeInSeconds ({job.max_seconds} s)"
    elif end.reason == "stopped":
        sentence = "the job was stopped"
    elif end.code < 0:
        kind, sentence = INTERNAL_ERROR, killed_by(-end.code)
    elif end.code > _SHELL_SIGNAL and end.code - _SHELL_SIGNAL in set(signal.Signals):
        sentence = killed_by(end.code - _SHELL_SIGNAL)  # as a shell, or our launcher, passes it on
    if end.reason == "exited" and (message := job.message()):
        sentence = f"{sentence}: {message}"
    return _AttemptError(kind, sentence, end.last_lines)


def stamps(files: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """When each file that is there was changed, and its size."""
    found = {}
    for path in files:
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            found[path] = (status.st_mtime_ns, status.st_size)
    return found


def check_unchanged(
    before: Mapping[Path, tuple[int, int]], files: Iterable[Path], refusal: str
) -> None:
    """Raise StepError if one is new or changed; one that is gone harms nobody."""
    changed = sorted(stamps(files).items() - before.items())
    if changed:
        raise StepError(refusal.format(changed[0][0]))
