"""Carry an execution out: start what is ready, and write down what ends.

One thread (the caller's) decides everything, writes the journal and calls the listener; each job
and each call that runs has a thread of its own, which sends messages to it.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from compilegate.document.expressions import ExpressionError
from compilegate.document.model import Step
from compilegate.document.step_types import STEP_TYPES, TRAINING
from compilegate.execution.events import (
    EnvironmentBuilding,
    Event,
    ExecutionEnded,
    ExecutionStarted,
    PathsChosen,
    StepEnded,
    StepOutput,
    StepRetried,
    StepStarted,
    StepWaiting,
    StopRequested,
)
from compilegate.execution.result import ExecutionResult, StepFailure, StepResult, explain_failure
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.local.aws.server import aws_endpoint
from compilegate.local.cache import CachedResult
from compilegate.local.checks import Image, is_called
from compilegate.local.errors import ImageEnvironmentError, StepError
from compilegate.local.home.images import Environment, build_environment
from compilegate.local.home.journal import resumable_steps
from compilegate.local.jobs.attempt import AttemptResult, JobAttempt
from compilegate.local.jobs.environment import JobVariables
from compilegate.local.jobs.launcher import RunningJob
from compilegate.local.jobs.leases import Lease, core_pool, gpu_pool, gpu_variables
from compilegate.local.jobs.sandbox import Sandboxes, choose_root, shared_folders
from compilegate.local.progress import Progress, retry_wait
from compilegate.local.run import INLINE_STEPS, LocalRun, Prepared

# How long to wait before asking again for cores that another execution holds: seldom while jobs
# of our own are running, which are being measured, and whose ends come as messages anyway.
_POLL_SECONDS = 0.05
_POLL_SECONDS_WHILE_RUNNING = 1.0
_MESSAGES_AT_ONCE = 1_000
_MOST_WAITING = 10_000
"""Beyond so many unread messages, lines of jobs are only in their logs: a job that prints without
end must neither fill the memory nor wait for a terminal."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Listener = Callable[[Event], None]


def carry_out(run: LocalRun, on_event: Listener) -> ExecutionResult:
    """Carry an execution out from where its files leave it; whoever calls holds its journal.

    Ctrl-C and SIGTERM stop the jobs and leave an execution that can be resumed. Raises
    RefusedDefinitionError, and ImageEnvironmentError when an environment cannot be built.
    """
    run.check()
    resumed = any(step.attempts for step in run.execution.steps.values())
    try:
        environments = _environments(run, on_event)
    except ImageEnvironmentError:
        if not resumed:  # nothing has started, so there is nothing to keep
            shutil.rmtree(run.execution.folder)
        raise
    own_root, sentence = choose_root(run.home, run.options.own_root)
    sandboxes = Sandboxes(run.journal.jobs, own_root, shared_folders(run.options.shared))
    # A bucket that a definition names exists on AWS, though nothing lies in it here.
    given = map(str, run.execution.parameters.values())
    named = " ".join([run.text.decode("utf-8", "replace"), *given])
    uploads = run.execution.folder / "uploads"
    with aws_endpoint(run.store, uploads, os.environ, named) as aws:
        variables = JobVariables(aws, run.options.variables)
        loop = _Loop(run, environments, sandboxes, variables, on_event)
        ended = loop.run(PathsChosen(own_root, sentence), resumed=resumed)
    run.journal.drop_sandboxes()
    return ended


def _environments(run: LocalRun, on_event: Listener) -> dict[str, Environment]:
    def environment(uri: str, image: Image) -> Environment:
        if isinstance(image, Environment):
            return image
        return build_environment(
            image, run.home, lambda log: on_event(EnvironmentBuilding(uri, str(log)))
        )

    return {uri: environment(uri, image) for uri, image in run.checked.images.items()}


@dataclass
class _Active:
    """A step between its first attempt's start and its last one's end."""

    process: RunningJob
    job: Prepared | None
    """None for a call."""
    release: Callable[[], None]
    """Waits for the attempt's thread, and gives back what it held."""
    started: float = field(default_factory=time.monotonic)
    failures: Counter[str] = field(default_factory=Counter)
    retry_at: float | None = None
    """Monotonic time of the next attempt; None while one runs."""


class _Loop:
    def __init__(
        self,
        run: LocalRun,
        environments: Mapping[str, Environment],
        sandboxes: Sandboxes,
        variables: JobVariables,
        listener: Listener,
    ) -> None:
        locks, identifier = run.home / "locks", run.execution.execution_id
        self._run = run
        self._environments = environments
        self._sandboxes = sandboxes
        self._variables = variables
        """What every job's environment has besides its own."""
        self._listener = listener
        self._graph = run.checked.graph
        self._steps = {
            name: replace(step, status=StepStatus.NOT_EXECUTED)
            if name in run.checked.left_out
            else step
            for name, step in resumable_steps(run.execution).items()
        }
        for name in run.checked.left_out:  # whoever reads the files sees it, whatever comes
            run.journal.write_step(self._steps[name])
        self._cores = core_pool(run.cores, locks / "cores", identifier)
        self._gpus = gpu_pool(run.gpus, locks / "gpus", identifier)
        # A SimpleQueue may be put to from a signal handler; that is what it is for.
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        """What other threads and signals want done on the deciding thread."""
        self._prepared: dict[str, Prepared] = {}
        self._active: dict[str, _Active] = {}
        self._signals: list[str] = []
        """Signals that ended the run, in order."""
        self._lacks_cores = self._lacks_gpus = False
        self._waiting: set[str] = set()
        """The steps whose wait for another execution has been reported."""

    def run(self, root: PathsChosen, *, resumed: bool) -> ExecutionResult:
        """Run to the end; `resumed` where an earlier run has left results."""
        with _stop_signals(lambda name: self._inbox.put(partial(self._stop, name))):
            try:
                self._report_start(resumed)
                self._listener(root)
                while self._advance():
                    self._receive()
            finally:
                self._halt()  # whatever made the loop end
        return self._finish()

    def _report_start(self, resumed: bool) -> None:
        run, limit = self._run, self._run.max_parallel_steps
        at_once = max(1, len(run.cores) // run.cores_per_job)
        jobs = {
            name: step.status
            for name, step in self._steps.items()
            if (known := STEP_TYPES.get(step.type)) is not None and known.job_name is not None
        }
        self._listener(
            ExecutionStarted(
                run.execution.execution_id,
                run.execution.pipeline_name,
                run.execution.reference,
                resumed,
                jobs,
                at_once if limit is None else min(limit, at_once),
            )
        )

    # Deciding what happens next

    def _progress(self) -> Progress:
        return Progress(self._graph, self._steps)

    def _running(self) -> dict[str, _Active]:
        return {name: each for name, each in self._active.items() if each.retry_at is None}

    def _running_jobs(self) -> int:
        """How many jobs run; calls hold no core."""
        return sum(each.job is not None for each in self._running().values())

    def _advance(self) -> bool:
        """Start whatever can start; False when there is nothing left to wait for."""
        if not self._signals:
            while self._skip_unreachable() or self._start_ready():
                pass
        return bool(self._active) or self._lacks_cores or self._lacks_gpus

    def _skip_unreachable(self) -> bool:
        names = self._progress().not_to_be_executed()
        for name in names:
            self._update(replace(self._steps[name], status=StepStatus.NOT_EXECUTED))
        return bool(names)

    def _start_ready(self) -> bool:
        """Start ready steps in definition order; True when that may have changed what is ready.

        A job that finds no cores is not overtaken by later jobs, or it might wait for ever; one
        that finds no GPU only by jobs that need none.
        """
        self._lacks_cores = self._lacks_gpus = False
        progress = self._progress()
        waiting = {name: at for name, a in self._active.items() if (at := a.retry_at) is not None}
        if progress.failure_is_final():
            for name in waiting:
                self._end_step(replace(self._steps[name], status=StepStatus.FAILED))
            return bool(waiting)
        due = [name for name, at in waiting.items() if at <= time.monotonic()]
        return any(self._start(self._graph.steps[name]) for name in [*due, *progress.ready()])

    # Steps

    def _start(self, step: Step) -> bool:
        """Start a step, or let it wait; True when that may have changed what is ready."""
        run, name = self._run, step.name
        try:
            if is_called(step, run.options.commands):
                call, process = run.call(step, self._steps, self._variables), RunningJob()
                work = partial(call.run, process, self._printer(name))
                self._launch(StepStarted(name, None, 0), process, work, call.log)
                return True
            if step.type in INLINE_STEPS:
                self._run_inline(step)
                return True
            if name not in self._prepared and self._prepare(step):
                return True
        except (ExpressionError, StepError) as error:
            failure = StepFailure(str(error))
            self._end_step(replace(self._steps[name], status=StepStatus.FAILED, failure=failure))
            return True
        limit = run.max_parallel_steps
        if limit is None or self._running_jobs() < limit:
            self._start_job(name)
        return False

    def _run_inline(self, step: Step) -> None:
        self._listener(StepStarted(step.name, None, 1))
        started = time.monotonic()
        result = self._run.run_inline(step, self._steps)
        self._end_step(replace(result, seconds=time.monotonic() - started))

    def _prepare(self, step: Step) -> bool:
        """Resolve a job step's request; True when the step cache has its result, which ends it.
        Raises ExpressionError, StepError."""
        name, run = step.name, self._run
        prepared = run.prepare(step, self._steps, self._environments, self._sandboxes)
        self._prepared[name] = prepared
        is_retry = name in self._active
        if step.cache is None or prepared.slot is None or is_retry or not run.options.use_cache:
            return False
        hit = prepared.slot.find(step.cache)
        if hit is not None:
            self._end_step(
                replace(
                    self._steps[name],
                    status=StepStatus.SUCCEEDED,
                    cached_from=hit.execution_id,
                    job_name=hit.job_name,
                    properties=hit.properties,
                )
            )
        return hit is not None

    def _start_job(self, name: str) -> None:
        """Start a job that is prepared, if cores and GPUs are free for it."""
        run, prepared = self._run, self._prepared[name]
        job = prepared.job
        if self._lacks_cores or (self._lacks_gpus and job.gpus):
            return
        gpus = self._gpus.acquire(job.gpus if run.gpus else 0)
        if gpus is None:
            self._lacks_gpus = True
            self._report_wait(name, "GPUs", self._gpus.refused_by)
            return
        exclusive = self._graph.steps[name].type == TRAINING
        count = max(run.cores_per_job, min(job.processes, len(run.cores)))
        cores = self._cores.acquire(count, shared=not exclusive)
        if cores is None:
            gpus.release()
            self._lacks_cores = True
            self._report_wait(name, "cores", self._cores.refused_by)
            return
        del self._prepared[name]
        attempt = JobAttempt(
            job=job,
            environment=prepared.environment,
            cores=cores,
            gpus=gpus,
            running=RunningJob(),
            variables=self._variables,
            gpu_variables=gpu_variables(gpus.things) if run.gpus else {},
            grace_seconds=run.options.grace_seconds,
            home=run.home,
            on_line=self._printer(name),
        )
        started = StepStarted(name, job.name, 0, attempt.cpus, gpus=gpus.things)
        held, process = (cores, gpus), attempt.running
        self._launch(started, process, attempt.run, attempt.log, job=prepared, held=held)

    def _report_wait(self, name: str, what: str, holders: Collection[str]) -> None:
        """Report once for which other executions a step waits."""
        if holders and name not in self._waiting:
            self._waiting.add(name)
            self._listener(StepWaiting(name, what, tuple(sorted(holders))))

    def _printer(self, name: str) -> Callable[[str], None]:
        """Sends a line that a step prints to the deciding thread."""

        def send(line: str) -> None:
            if self._inbox.qsize() < _MOST_WAITING:
                self._inbox.put(partial(self._listener, StepOutput(name, line)))

        return send

    def _launch(
        self,
        started: StepStarted,
        process: RunningJob,
        work: Callable[[], AttemptResult],
        log: Path,
        *,
        job: Prepared | None = None,
        held: Sequence[Lease[Any]] = (),
    ) -> None:
        """Start an attempt on a thread of its own, and report it."""
        name = started.step

        def attempt() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001  raised again on the deciding thread
                self._inbox.put(partial(_crash, error))
            else:
                self._inbox.put(partial(self._end_attempt, name, result))

        thread = threading.Thread(target=attempt)

        def release() -> None:
            thread.join()
            for each in held:
                each.release()

        thread.start()
        before = self._steps[name]
        active = self._active.setdefault(name, _Active(process, job, release))
        active.process, active.job, active.release, active.retry_at = process, job, release, None
        step = replace(
            before,
            status=StepStatus.EXECUTING,
            attempts=before.attempts + 1,
            started=before.started or time.time(),
            job_name=started.job_name,
            log=log,
            failure=None,
        )
        self._update(step)
        self._listener(replace(started, attempt=step.attempts))

    # Messages

    def _receive(self) -> None:
        """Do what other threads want done, or come back when something may have changed."""
        try:
            self._inbox.get(timeout=self._patience())()
            for _ in range(_MESSAGES_AT_ONCE):  # most are lines, which change nothing
                self._inbox.get_nowait()()
        except queue.Empty:
            return

    def _patience(self) -> float | None:
        """Seconds until something may change without a message; None when nothing can."""
        retries = [each.retry_at for each in self._active.values() if each.retry_at is not None]
        # Not at once, where a step that is due finds no cores.
        waits = [max(_POLL_SECONDS, at - time.monotonic()) for at in retries]
        if self._lacks_cores or self._lacks_gpus:
            waits.append(_POLL_SECONDS_WHILE_RUNNING if self._running_jobs() else _POLL_SECONDS)
        return min(waits, default=None)

    def _end_attempt(self, name: str, result: AttemptResult) -> None:
        active = self._active[name]
        active.release()
        step = replace(self._steps[name], failure=result.failure, properties=result.properties)
        if result.status == "Completed":
            self._end_step(replace(step, status=StepStatus.SUCCEEDED))
            # What failed, the machine's doing or not, is tried again.
            if result.failure is None and active.job is not None:
                self._record(name, active.job, result)
            return
        if result.status == "Stopped" or result.failure is None:
            self._end_step(replace(step, status=StepStatus.STOPPED))
            return
        kind, since = result.exception_type or "", time.monotonic() - active.started
        active.failures[kind] += 1
        policies = self._graph.steps[name].retry_policies
        wait = None if self._signals else retry_wait(policies, kind, active.failures, since)
        if wait is None:
            self._end_step(replace(step, status=StepStatus.FAILED))
            return
        active.retry_at = time.monotonic() + wait
        self._update(step)
        self._listener(StepRetried(name, step.attempts, result.failure, wait))

    def _record(self, name: str, prepared: Prepared, result: AttemptResult) -> None:
        """Keep a result in the step cache, where the step has one."""
        job, identifier = prepared.job, self._run.execution.execution_id
        if prepared.slot is None:
            return
        try:
            entry = CachedResult(job.name, identifier, result.properties)
            prepared.slot.record(entry, job.output_uris())
        except OSError as error:  # the step has ended well, and other jobs are running
            self._listener(StepOutput(name, f"could not be written to the step cache: {error}"))

    def _end_step(self, step: StepResult) -> None:
        active = self._active.pop(step.name, None)
        self._prepared.pop(step.name, None)
        if active is not None:
            step = replace(step, seconds=time.monotonic() - active.started)
        self._update(step)
        self._listener(
            StepEnded(step.name, step.status, step.cached_from, step.seconds, step.failure)
        )

    def _update(self, step: StepResult) -> None:
        self._steps[step.name] = step
        self._run.journal.write_step(step)

    # Ends

    def _stop(self, signal_name: str) -> None:
        """Stop everything at the first signal; kill it at the same one again, which is not another
        that the same hang-up sends."""
        running, again = self._running(), signal_name in self._signals
        self._signals.append(signal_name)
        if len(self._signals) > 1 and not again:
            return
        for active in running.values():
            active.process.stop(at_once=again)
        grace = 0.0 if again else self._run.options.grace_seconds
        if running or again:
            self._listener(StopRequested(signal_name, tuple(running), grace))
        self._lacks_cores = self._lacks_gpus = False
        for name in set(self._active) - set(running):
            self._end_step(replace(self._steps[name], status=StepStatus.STOPPED))

    def _halt(self) -> None:
        """Leave no process and no thread behind."""
        running = self._running().values()
        for active in running:
            active.process.stop()
        for active in running:
            active.release()

    def _finish(self) -> ExecutionResult:
        run, status = self._run, self._progress().final_status()
        unfinished = {StepStatus.WAITING, StepStatus.EXECUTING, StepStatus.STOPPED}
        if self._signals and any(step.status in unfinished for step in self._steps.values()):
            status = ExecutionStatus.STOPPED
        failed_by, failure = explain_failure(self._steps, status)
        if status is ExecutionStatus.STOPPED:
            failure = f"stopped by {self._signals[0]}"
        result = replace(
            run.execution,
            status=status,
            steps=dict(self._steps),
            parameters=run.checked.parameters,
            failed_by=failed_by,
            failure=failure,
            ended=time.time(),
        )
        run.journal.write_execution(result)
        self._listener(ExecutionEnded(result.execution_id, status, failure))
        return result


def _crash(error: BaseException) -> NoReturn:
    """Raise a fault of this program, not of the job, that another thread met."""
    raise error


@contextmanager
def _stop_signals(request_stop: Callable[[str], None]) -> Iterator[None]:
    """Call `request_stop` with a signal's name for as long as the context lasts, instead of an
    exception at any line. It may be called at any moment and must not take locks.

    Python lets only the main thread have signal handlers; on another thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        request_stop(signal.Signals(number).name)

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
