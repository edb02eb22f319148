"""The attempts at jobs that run at this moment, each on a thread of its own.

What the threads have to say goes into one inbox, which the thread that decides reads.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from compilegate.execution.events import StepOutput
from compilegate.local.aws.variables import JobVariables
from compilegate.local.engine.plan import PreparedStep
from compilegate.local.functions.calling import FunctionCall
from compilegate.local.functions.command import CommandCall
from compilegate.local.jobs.attempt import AttemptResult, JobSlot, run_attempt
from compilegate.local.jobs.launcher import RunningJob
from compilegate.local.jobs.leases.cores import CoreLease
from compilegate.local.jobs.leases.gpus import GpuLease


@dataclass(frozen=True)
class AttemptEnded:
    """A job has ended, or could not be run."""

    step: str
    result: AttemptResult


@dataclass(frozen=True)
class AttemptCrashed:
    """A fault of this program, not of the job."""

    error: BaseException


@dataclass(frozen=True)
class StopRequested:
    """A signal asks for the execution's end."""

    signal_name: str


_MOST_WAITING = 10_000
"""Beyond so many unread messages, lines of jobs are only in their logs: a job that prints without
end must neither fill the memory nor wait for a terminal."""

Inbox = queue.SimpleQueue[StepOutput | AttemptEnded | AttemptCrashed | StopRequested]


@dataclass(frozen=True)
class _Attempt:
    prepared: PreparedStep
    cores: CoreLease
    gpus: GpuLease
    process: RunningJob
    thread: threading.Thread


def _show_line(inbox: Inbox, step: str, line: str) -> None:
    if inbox.qsize() < _MOST_WAITING:
        inbox.put(StepOutput(step, line))


class RunningCalls:
    """Functions and commands that run, by step; they hold no core."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._calls: dict[str, tuple[RunningJob, threading.Thread]] = {}

    @property
    def steps(self) -> Collection[str]:
        """The steps whose function runs."""
        return self._calls.keys()

    def start(self, step: str, call: FunctionCall | CommandCall) -> None:
        """Call the function."""
        process = RunningJob()
        thread = threading.Thread(target=self._work, args=(step, call, process))
        self._calls[step] = (process, thread)
        thread.start()

    def collect(self, step: str) -> None:
        """Forget a call that has ended."""
        _, thread = self._calls.pop(step)
        thread.join()

    def stop(self) -> None:
        """Ask every function to end."""
        for process, _ in self._calls.values():
            process.stop()

    def kill(self) -> None:
        """End every function at once."""
        for process, _ in self._calls.values():
            process.kill()

    def halt(self) -> None:
        """Leave no process and no thread behind."""
        self.stop()
        for step in list(self._calls):
            self.collect(step)

    def _work(self, step: str, call: FunctionCall | CommandCall, process: RunningJob) -> None:
        try:
            result = call.run(process, partial(_show_line, self._inbox, step))
            self._inbox.put(AttemptEnded(step, result))
        except BaseException as error:  # noqa: BLE001 - raised again on the deciding thread
            self._inbox.put(AttemptCrashed(error))


class RunningAttempts:
    """By step; each holds its cores and GPUs until it is collected."""

    def __init__(
        self, inbox: Inbox, grace_seconds: float, home: Path, variables: JobVariables
    ) -> None:
        self._inbox = inbox
        self._home = home
        self._grace_seconds = grace_seconds
        self._variables = variables
        self._attempts: dict[str, _Attempt] = {}

    @property
    def steps(self) -> Collection[str]:
        """The steps with an attempt that runs."""
        return self._attempts.keys()

    def start(self, step: str, prepared: PreparedStep, cores: CoreLease, gpus: GpuLease) -> None:
        """Run the job on these."""
        process = RunningJob()
        slot = JobSlot(
            environment=prepared.environment,
            cores=cores,
            gpus=gpus,
            running=process,
            grace_seconds=self._grace_seconds,
            home=self._home,
            variables=self._variables,
        )
        thread = threading.Thread(target=self._work, args=(step, prepared, slot))
        self._attempts[step] = _Attempt(prepared, cores, gpus, process, thread)
        thread.start()

    def collect(self, step: str) -> PreparedStep:
        """Release what an ended attempt held; returns what it ran."""
        attempt = self._attempts.pop(step)
        attempt.thread.join()
        attempt.cores.release()
        attempt.gpus.release()
        return attempt.prepared

    def stop(self) -> None:
        """Ask every job to end."""
        for attempt in self._attempts.values():
            attempt.process.stop()

    def kill(self) -> None:
        """End every job at once."""
        for attempt in self._attempts.values():
            attempt.process.kill()

    def halt(self) -> None:
        """Leave no job and no thread behind."""
        self.stop()
        for step in list(self._attempts):
            self.collect(step)

    def _work(self, step: str, prepared: PreparedStep, slot: JobSlot) -> None:
        try:
            show_line = partial(_show_line, self._inbox, step)
            result = run_attempt(prepared.job_step.job, slot, show_line)
            self._inbox.put(AttemptEnded(step, result))
        except BaseException as error:  # noqa: BLE001 - raised again on the deciding thread
            self._inbox.put(AttemptCrashed(error))
