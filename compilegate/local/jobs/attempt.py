"""One attempt at a job step: stage, run, collect, and say how it went."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from compilegate.execution.failure import StepFailure
from compilegate.job.errors import killed_by
from compilegate.local.aws.variables import NO_VARIABLES, JobVariables
from compilegate.local.errors import NO_SPACE, CapacityError, StepError
from compilegate.local.home.images import Environment
from compilegate.local.jobs.cluster.running import HostCommand, run_hosts
from compilegate.local.jobs.container.host import HostFolder
from compilegate.local.jobs.container.installing import (
    Wanted,
    is_whole,
    mark_whole,
    one_at_a_time,
    wanted_by,
)
from compilegate.local.jobs.container.layers import image_python, keep_layer, make_layer
from compilegate.local.jobs.environment import base_environment, hugging_face_cache, pip_cache
from compilegate.local.jobs.job import Job, JobOutcome
from compilegate.local.jobs.launcher import Alias, JobCommand, JobEnd, RunningJob
from compilegate.local.jobs.leases.cores import CoreLease
from compilegate.local.jobs.leases.gpus import GpuLease
from compilegate.local.jobs.printed.metrics import PrintedAt, final_metrics

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
    home: Path
    """Whose kept layers the job's environment may lie over."""
    variables: JobVariables = NO_VARIABLES
    """What the execution adds to the job's environment."""


def run_attempt(job: Job, slot: JobSlot, on_line: Callable[[str], None]) -> AttemptResult:
    """Run one attempt to its end. A failure of any kind is a result, not an exception."""
    attempt = _Attempt(job, slot, on_line)
    started = time.time()
    failure = attempt.run()
    end = attempt.end
    for each in attempt.members:
        each.sandbox.drop_scratch()
    status: AttemptStatus = "Completed" if failure is None else "Failed"
    if end is not None and end.reason in {"stopped", "timeout"}:
        status = "Stopped"
    recorded = job.recorded_failure() if status == "Completed" else None
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
        failure=_told(failure, recorded, attempt.log),
        properties=job.describe(outcome),
    )


def _told(failure: _Failure | None, recorded: str | None, log: Path) -> StepFailure | None:
    if failure is not None:
        return failure.told(log)
    return None if recorded is None else StepFailure(recorded, log)


class _Attempt:
    """One attempt at the job of every host, the first of which is the job itself."""

    def __init__(self, job: Job, slot: JobSlot, on_line: Callable[[str], None]) -> None:
        self.members = (job, *job.others)
        self.metrics: Sequence[Mapping[str, Any]] = ()
        self.log = job.sandbox.log
        """The log of the host that decided how it went."""
        self.end: JobEnd | None = None
        """If the job came to one."""
        self._job, self._slot, self._on_line = job, slot, on_line

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
        for each in self.members:
            each.sandbox.clear()
        inputs = _InputGuard([file for m in self.members for file in m.stage(slot.environment)])
        layers = [_Layer(each, slot, self._on_line, len(self.members)) for each in self.members]
        for layer in layers:
            self.end = layer.install()
            if self.end is not None:
                return layer.failure(self.end)
        host = None if job.sandbox.own_root else HostFolder()
        commands = self._commands(layers)
        with contextlib.ExitStack() as stack:
            for each in self.members:
                stack.enter_context(each.feeding())
            decided = run_hosts(slot.running, commands, self._on_line)
        self.end, self.log = decided.end, decided.log
        inputs.check()
        if host is not None:
            host.check()
        if self.end.reason != "stopped":
            self._note(job.collect(self.end))
            self.end = self._read_metrics(commands, self.end)
        return self._failure(self.end, decided.name)

    def _commands(self, layers: Sequence[_Layer]) -> list[HostCommand]:
        return [
            HostCommand(each.host, layer.command(), each.sandbox.log, PrintedAt())
            for each, layer in zip(self.members, layers, strict=True)
        ]

    def _read_metrics(self, hosts: Sequence[HostCommand], end: JobEnd) -> JobEnd:
        """The latest value counts, whichever host printed it."""
        found: dict[str, Mapping[str, Any]] = {}
        running = self._slot.running
        for host in hosts:
            metrics = final_metrics(
                self._job.metrics,
                host.log,
                host.printed_at,
                lambda: running.stopping,
                lambda said: self._note([said]),
            )
            if metrics is None:
                return replace(end, reason="stopped")
            for metric in metrics:
                before = found.get(metric["MetricName"])
                if before is None or before["Timestamp"] <= metric["Timestamp"]:
                    found[metric["MetricName"]] = metric
        self.metrics = list(found.values())
        return end

    def _note(self, sentences: Iterable[str]) -> None:
        """Tell what the job itself did not, where it is read later, too."""
        for sentence in sentences:
            self._on_line(sentence)
            with self._job.sandbox.log.open("a", encoding="utf-8") as log:
                log.write(f"compilegate: {sentence}\n")

    def _failure(self, end: JobEnd, host: str) -> _Failure | None:
        failure = _failure(end, self._job)
        if failure is None or len(self.members) == 1:
            return failure
        return replace(failure, sentence=f"{failure.sentence} (on {host})")


class _Layer:
    """The environment that this attempt may change, and the commands that run in it."""

    def __init__(
        self, job: Job, slot: JobSlot, read_line: Callable[[str], None], hosts: int
    ) -> None:
        self._hosts = hosts
        self._job, self._slot, self._read_line = job, slot, read_line
        self._image = image_python(slot.environment)
        self._folder = job.sandbox.scratch / "python"
        self._wanted = wanted_by(job.source_folder(), slot.environment)
        self._layers = slot.home / "environments" / "layers"
        self._environment = slot.environment

    def install(self) -> JobEnd | None:
        """Make the layer; returns the end of an installation that did not succeed."""
        if self._wanted is None:
            self._make()
            return None
        kept = self._layers / self._wanted.digest
        lock = self._slot.home / "locks" / f"layer-{self._wanted.digest}.lock"
        with one_at_a_time(lock, lambda: self._slot.running.stopping) as is_mine:
            if not is_mine:
                return JobEnd("stopped", 0, "", ())
            if not is_whole(kept):
                end = self._pip(self._wanted)
                if not end.succeeded:
                    return end
                keep_layer(self._folder, self._image, kept)
                mark_whole(kept)
                shutil.rmtree(self._folder)
        self._make(kept)
        return None

    def _make(self, *below: Path) -> None:
        seen_at = self._job.sandbox.inside(self._folder)
        self._environment = make_layer(self._folder, seen_at, self._image, below)

    def _pip(self, wanted: Wanted) -> JobEnd:
        self._make()
        self._read_line(f"installing what {wanted.files} of the source asks for")
        pip = [str(self._environment.python), "-m", "pip", *wanted.arguments, "--no-input"]
        command = replace(self.command(), argv=pip)
        return self._slot.running.run(command, self._job.sandbox.log, self._read_line)

    def failure(self, end: JobEnd) -> _Failure:
        """Why an installation did not succeed."""
        if end.reason == "stopped":
            return _Failure(ALGORITHM_ERROR, "the job was stopped", end.last_lines)
        files = "its source" if self._wanted is None else f"{self._wanted.files} of its source"
        told = [line for line in end.last_lines if line.startswith("ERROR:")]
        why = told[-1].removeprefix("ERROR:").strip() if told else end.error or f"code {end.code}"
        sentence = f"what {files} asks for could not be installed: {why}"
        return _Failure(ALGORITHM_ERROR, sentence, end.last_lines)

    def command(self) -> JobCommand:
        """The job's own command in this environment."""
        job, slot = self._job, self._slot
        sandbox, gpus = job.sandbox, slot.gpus
        seen = gpus.part(job.rank, self._hosts)
        cores = max(1, len(slot.cores.cores) // self._hosts)
        shared = [hugging_face_cache(os.environ), pip_cache(os.environ)]
        for folder in shared:
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
        variables = base_environment(sandbox, self._environment, cores, os.environ)
        shown = (*self._image.folders, slot.environment.python.parent.parent, self._layers)
        with contextlib.suppress(OSError):
            shown = (*shown, Path.cwd())  # a project below /tmp is there as one elsewhere is
        return JobCommand(
            argv=job.argv(self._environment, cores, len(seen.names)),
            working_directory=job.working_directory(),
            environment={
                **slot.variables.merged(variables, job.variables(cores, len(seen.names))),
                **seen.variables,
            },
            cpus=slot.cores.cpus,
            max_seconds=job.max_seconds,
            grace_seconds=slot.grace_seconds,
            alias=None if sandbox.own_root else Alias(sandbox.alias, sandbox.folder),
            view=sandbox.view(shown, shared),
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
