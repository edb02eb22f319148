"""The jobs and calls that run at this moment, each on a thread of its own.

What the threads report goes into one inbox, which the thread that decides reads.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from compilegate.execution.events import StepOutput
from compilegate.local.aws.variables import JobVariables
from compilegate.local.engine.plan import PreparedStep
from compilegate.local.jobs.attempt import AttemptResult, JobSlot, run_attempt
from compilegate.local.jobs.calls import Call
from compilegate.local.jobs.launcher import RunningJob
from compilegate.local.jobs.leases import CoreLease, GpuLease, Lease


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


Work = Callable[[RunningJob, Callable[[str], None]], AttemptResult]
"""What a thread does: it has a handle to be stopped by, and passes lines on."""


@dataclass(frozen=True)
class _Running:
    prepared: PreparedStep | None
    """None for a call."""
    leases: tuple[Lease, ...]
    process: RunningJob
    thread: threading.Thread


class RunningSteps:
    """By step; each holds what it has leased until it is collected."""

    def __init__(
        self, inbox: Inbox, grace_seconds: float, home: Path, variables: JobVariables
    ) -> None:
        self._inbox = inbox
        self._home = home
        self._grace_seconds = grace_seconds
        self._variables = variables
        self._running: dict[str, _Running] = {}

    @property
    def steps(self) -> Collection[str]:
        """The steps that run."""
        return self._running.keys()

    @property
    def jobs(self) -> int:
        """How many of them are jobs; calls hold no core."""
        return sum(each.prepared is not None for each in self._running.values())

    def start_job(
        self, step: str, prepared: PreparedStep, cores: CoreLease, gpus: GpuLease
    ) -> None:
        """Run the job on these."""
        job = prepared.job_step.job

        def work(process: RunningJob, on_line: Callable[[str], None]) -> AttemptResult:
            slot = JobSlot(
                environment=prepared.environment,
                cores=cores,
                gpus=gpus,
                running=process,
                grace_seconds=self._grace_seconds,
                home=self._home,
                variables=self._variables,
            )
            return run_attempt(job, slot, on_line)

        self._start(step, work, prepared, (cores, gpus))

    def start_call(self, step: str, call: Call) -> None:
        """Call the function or the command."""
        self._start(step, call.run, None, ())

    def _start(
        self, step: str, work: Work, prepared: PreparedStep | None, leases: tuple[Lease, ...]
    ) -> None:
        process = RunningJob()
        thread = threading.Thread(target=self._work, args=(step, work, process))
        self._running[step] = _Running(prepared, leases, process, thread)
        thread.start()

    def collect(self, step: str) -> PreparedStep | None:
        """Release what an ended step held; returns the job that it ran, None for a call."""
        ended = self._running.pop(step)
        ended.thread.join()
        for lease in ended.leases:
            lease.release()
        return ended.prepared

    def stop(self) -> None:
        """Ask every process to end."""
        for each in self._running.values():
            each.process.stop()

    def kill(self) -> None:
        """End every process at once."""
        for each in self._running.values():
            each.process.kill()

    def halt(self) -> None:
        """Leave no process and no thread behind."""
        self.stop()
        for step in list(self._running):
            self.collect(step)

    def _work(self, step: str, work: Work, process: RunningJob) -> None:
        try:
            result = work(process, partial(_show_line, self._inbox, step))
            self._inbox.put(AttemptEnded(step, result))
        except BaseException as error:  # noqa: BLE001 - raised again on the deciding thread
            self._inbox.put(AttemptCrashed(error))


def _show_line(inbox: Inbox, step: str, line: str) -> None:
    if inbox.qsize() < _MOST_WAITING:
        inbox.put(StepOutput(step, line))
