"""Runs the steps of one execution: what is ready starts, what ends is written down.

One thread (the caller's) decides everything, writes the journal and calls the listener; each
running job has a thread of its own, which sends messages to it.
"""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from compilegate.document.paths import ExpressionError
from compilegate.document.step_types import STEP_TYPES, TRAINING
from compilegate.execution.events import (
    Event,
    ExecutionEnded,
    ExecutionStarted,
    PathsChosen,
    StepEnded,
    StepOutput,
    StepRetried,
    StepStarted,
    StepWaiting,
    StopAsked,
)
from compilegate.execution.failure import StepFailure
from compilegate.execution.result import ExecutionResult, StepResult, explain_failure
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.local.engine.attempts import (
    AttemptEnded,
    Inbox,
    RunningSteps,
    StopRequested,
)
from compilegate.local.engine.inline_steps import INLINE_STEPS, run_inline_step
from compilegate.local.engine.plan import ExecutionPlan, PreparedStep
from compilegate.local.engine.progress import Progress
from compilegate.local.engine.retries import RetryHistory, retry_wait
from compilegate.local.engine.step_cache import CachedResult
from compilegate.local.engine.stop_signals import stop_signals
from compilegate.local.errors import StepError
from compilegate.local.jobs.attempt import AttemptResult

# How long to wait before asking again for cores that another execution holds: seldom while jobs
# of our own are running, which are being measured, and whose ends are told by a message anyway.
_CORES_POLL_SECONDS = 0.05
_CORES_POLL_SECONDS_WHILE_RUNNING = 1.0
_LINES_AT_ONCE = 1_000


@dataclass
class _ActiveStep:
    """A job step between its first attempt's start and its last one's end."""

    started: float
    failures: Counter[str] = field(default_factory=Counter)
    retry_at: float | None = None
    """Monotonic time of the next attempt; None while one is running."""


def _runs_a_job(step: StepResult) -> bool:
    known = STEP_TYPES.get(step.type)
    return known is not None and known.job_name is not None


class Execution:
    """One run of a plan, from the steps' states that are given to the end."""

    def __init__(
        self,
        plan: ExecutionPlan,
        steps: Mapping[str, StepResult],
        listener: Callable[[Event], None],
    ) -> None:
        self._plan = plan
        self._steps = dict(steps)
        self._listener = listener
        self._inbox: Inbox = queue.SimpleQueue()
        self._prepared: dict[str, PreparedStep] = {}
        self._active: dict[str, _ActiveStep] = {}
        self._running = RunningSteps(self._inbox, plan.grace_seconds, plan.home, plan.variables)
        self._stopped_by: str | None = None
        self._signals: set[str] = set()
        self._lacks_cores = self._lacks_gpus = False
        self._waiting: set[str] = set()
        """The steps whose wait for another execution has been reported."""

    def run(self) -> ExecutionResult:
        """Run to the end. Ctrl-C and SIGTERM stop the jobs and leave a resumable execution."""
        # A SimpleQueue may be put to from a signal handler; that is what it is for.
        with stop_signals(lambda name: self._inbox.put(StopRequested(name))):
            try:
                self._begin()
                while self._advance():
                    self._receive()
            finally:
                self._running.halt()  # whatever made the loop end
        return self._finish()

    def _begin(self) -> None:
        plan = self._plan
        self._listener(
            ExecutionStarted(
                plan.facts.execution_id,
                plan.facts.pipeline_name,
                plan.facts.execution_id,
                plan.resumed,
                {name: step.status for name, step in self._steps.items() if _runs_a_job(step)},
                plan.most_at_once,
            )
        )
        self._listener(PathsChosen(plan.sandboxes.root.own, plan.sandboxes.root.sentence))

    # Deciding what happens next

    def _progress(self) -> Progress:
        return Progress(
            self._plan.graph,
            {name: step.status for name, step in self._steps.items()},
            {n: s.outcome for n, s in self._steps.items() if s.outcome is not None},
        )

    def _advance(self) -> bool:
        """Start whatever can start; False when there is nothing left to wait for."""
        if self._stopped_by is None:
            while self._skip_unreachable() or self._start_ready():
                pass
        return bool(self._active) or self._lacks_cores or self._lacks_gpus

    def _skip_unreachable(self) -> bool:
        names = self._progress().not_to_be_executed()
        for name in names:
            self._update(replace(self._steps[name], status=StepStatus.NOT_EXECUTED))
        return bool(names)

    def _start_ready(self) -> bool:
        """Start ready steps in definition order; True when one has already ended by that.

        A job that finds no cores is not overtaken by later jobs, or it might wait for ever; one
        that finds no GPU only by jobs that need none.
        """
        self._lacks_cores = self._lacks_gpus = False
        progress = self._progress()
        if progress.failure_is_final():
            return self._give_up_retries()
        for name in [*self._due_retries(), *progress.ready()]:
            if self._plan.is_called(self._plan.graph.steps[name]):
                self._call(name)
                return True
            if self._plan.graph.steps[name].type in INLINE_STEPS:
                self._run_inline(name)
                return True
            if name not in self._prepared and not self._prepare(name):
                return True
            if self._has_room() and not self._lacks_cores and not self._waits_for_gpus(name):
                self._start_attempt(name)
        return False

    def _waits_for_gpus(self, name: str) -> bool:
        return self._lacks_gpus and self._prepared[name].job_step.job.gpus > 0

    def _has_room(self) -> bool:
        limit = self._plan.max_parallel_steps
        return limit is None or self._running.jobs < limit

    def _due_retries(self) -> list[str]:
        now = time.monotonic()
        return [n for n, a in self._active.items() if a.retry_at is not None and a.retry_at <= now]

    def _give_up_retries(self) -> bool:
        waiting = [name for name, active in self._active.items() if active.retry_at is not None]
        for name in waiting:
            self._end_step(replace(self._steps[name], status=StepStatus.FAILED))
        return bool(waiting)

    # Steps

    def _run_inline(self, name: str) -> None:
        step = self._plan.graph.steps[name]
        self._listener(StepStarted(name, None, 1))
        started = time.monotonic()
        result = run_inline_step(
            step,
            self._plan.scope(self._steps, {}),
            self._plan.home,
            self._plan.store,
            self._plan.facts.execution_id,
        )
        self._end_step(replace(result, seconds=time.monotonic() - started))

    def _call(self, name: str) -> None:
        """Call a step's function or command on a thread of its own."""
        before = self._steps[name]
        try:
            call = self._plan.call(self._plan.graph.steps[name], self._steps)
        except (ExpressionError, StepError) as error:
            why = StepFailure(str(error))
            self._end_step(replace(before, status=StepStatus.FAILED, failure=why))
            return
        self._active[name] = _ActiveStep(time.monotonic())
        self._update(
            replace(
                before,
                status=StepStatus.EXECUTING,
                attempts=before.attempts + 1,
                started=before.started or time.time(),
                log=call.log,
                failure=None,
            )
        )
        self._listener(StepStarted(name, None, before.attempts + 1))
        self._running.start_call(name, call)

    def _end_call(self, name: str, result: AttemptResult) -> None:
        ended = {"Completed": StepStatus.SUCCEEDED, "Stopped": StepStatus.STOPPED}
        status = ended.get(result.status, StepStatus.FAILED)
        step = replace(self._steps[name], failure=result.failure, properties=result.properties)
        self._end_step(replace(step, status=status))

    def _prepare(self, name: str) -> bool:
        """Resolve a job step's request; False when that has ended the step (cached or failed)."""
        step = self._plan.graph.steps[name]
        try:
            prepared = self._plan.prepare(step, self._steps)
        except (ExpressionError, StepError) as error:
            why = StepFailure(str(error))
            self._end_step(replace(self._steps[name], status=StepStatus.FAILED, failure=why))
            return False
        self._prepared[name] = prepared
        is_retry = name in self._active
        if step.cache is None or prepared.slot is None or is_retry or not self._plan.use_cache:
            return True
        hit = prepared.slot.find(step.cache)
        if hit is not None:
            self._end_from_cache(name, hit)
        return hit is None

    def _end_from_cache(self, name: str, hit: CachedResult) -> None:
        self._end_step(
            replace(
                self._steps[name],
                status=StepStatus.SUCCEEDED,
                cached_from=hit.execution_id,
                job_name=hit.job_name,
                properties=hit.properties,
            )
        )

    def _start_attempt(self, name: str) -> None:
        plan, prepared = self._plan, self._prepared[name]
        exclusive = plan.graph.steps[name].type == TRAINING
        acquire = plan.cores.acquire_exclusive if exclusive else plan.cores.acquire_shared
        gpus = plan.gpus.acquire(prepared.job_step.job.gpus)
        if gpus is None:
            self._lacks_gpus = True
            self._report_wait(name, "GPUs", plan.gpus.refused_by)
            return
        cores = acquire(plan.cores_for(prepared.job_step.job.processes))
        if cores is None:
            gpus.release()
            self._lacks_cores = True
            self._report_wait(name, "cores", plan.cores.refused_by)
            return
        del self._prepared[name]
        active = self._active.setdefault(name, _ActiveStep(time.monotonic()))
        active.retry_at = None
        job = prepared.job_step.job
        before = self._steps[name]
        self._running.start_job(name, prepared, cores, gpus)
        self._update(
            replace(
                before,
                status=StepStatus.EXECUTING,
                attempts=before.attempts + 1,
                started=before.started or time.time(),
                job_name=job.name,
                log=job.sandbox.log,
                failure=None,
            )
        )
        attempt = before.attempts + 1
        self._listener(StepStarted(name, job.name, attempt, cores.cpus, gpus=gpus.names))

    def _report_wait(self, name: str, what: str, holders: frozenset[str]) -> None:
        """Report once for which other executions a step waits."""
        if holders and name not in self._waiting:
            self._waiting.add(name)
            self._listener(StepWaiting(name, what, tuple(sorted(holders))))

    # Messages

    def _receive(self) -> None:
        try:
            message = self._inbox.get(timeout=self._patience())
            for _ in range(_LINES_AT_ONCE):  # a line of a job's output changes nothing
                if not isinstance(message, StepOutput):
                    break
                self._listener(message)
                message = self._inbox.get_nowait()
        except queue.Empty:
            return
        if isinstance(message, StepOutput):
            self._listener(message)
        elif isinstance(message, AttemptEnded):
            self._end_attempt(message.step, message.result)
        elif isinstance(message, StopRequested):
            self._stop(message.signal_name)
        else:
            raise message.error

    def _patience(self) -> float | None:
        """Seconds until something may change without a message; None when nothing can."""
        now = time.monotonic()
        waits = [a.retry_at - now for a in self._active.values() if a.retry_at is not None]
        if self._lacks_cores or self._lacks_gpus:
            busy = self._running.jobs > 0
            waits.append(_CORES_POLL_SECONDS_WHILE_RUNNING if busy else _CORES_POLL_SECONDS)
        return max(0.0, min(waits)) if waits else None

    def _end_attempt(self, name: str, result: AttemptResult) -> None:
        prepared, active = self._running.collect(name), self._active[name]
        if prepared is None:
            self._end_call(name, result)
            return
        step = replace(self._steps[name], failure=result.failure, properties=result.properties)
        if result.status == "Completed":
            self._end_step(replace(step, status=StepStatus.SUCCEEDED))
            if result.failure is None:  # what failed, the machine's doing or not, is tried again
                self._record(name, prepared, result)
        elif result.status == "Stopped" or result.failure is None:
            self._end_step(replace(step, status=StepStatus.STOPPED))
        else:
            wait = self._retry_wait(name, result.exception_type or "")
            if wait is None:
                self._end_step(replace(step, status=StepStatus.FAILED))
                return
            active.retry_at = time.monotonic() + wait
            self._update(step)
            self._listener(StepRetried(name, step.attempts, result.failure, wait))

    def _retry_wait(self, name: str, exception_type: str) -> float | None:
        active = self._active[name]
        active.failures[exception_type] += 1
        if self._stopped_by is not None:
            return None
        history = RetryHistory(active.failures, time.monotonic() - active.started)
        return retry_wait(self._plan.graph.steps[name].retry_policies, exception_type, history)

    def _record(self, name: str, prepared: PreparedStep, result: AttemptResult) -> None:
        if prepared.slot is None:
            return
        job = prepared.job_step.job
        try:
            prepared.slot.record(
                CachedResult(job.name, self._plan.facts.execution_id, result.properties),
                job.output_uris(),
            )
        except OSError as error:  # the step has ended well, and other jobs are running
            self._listener(StepOutput(name, f"not kept in the step cache: {error}"))

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
        self._plan.journal.write_step(step)

    # Ends

    def _stop(self, signal_name: str) -> None:
        running = tuple(self._running.steps)
        if self._stopped_by is not None:
            if signal_name in self._signals:  # not another that the same hang-up sends
                self._running.kill()
                self._listener(StopAsked(signal_name, running, 0.0))
            self._signals.add(signal_name)
            return
        self._signals.add(signal_name)
        self._stopped_by = signal_name
        self._lacks_cores = self._lacks_gpus = False
        self._running.stop()
        if running:
            self._listener(StopAsked(signal_name, running, self._plan.grace_seconds))
        for name in set(self._active) - set(self._running.steps):
            self._end_step(replace(self._steps[name], status=StepStatus.STOPPED))

    def _finish(self) -> ExecutionResult:
        status = self._progress().final_status()
        if self._stopped_by is not None and self._is_unfinished():
            status = ExecutionStatus.STOPPED
        result = self._result(status)
        self._plan.journal.write_execution(result)
        self._listener(ExecutionEnded(result.execution_id, status, result.failure))
        return result

    def _is_unfinished(self) -> bool:
        unfinished = {StepStatus.WAITING, StepStatus.EXECUTING, StepStatus.STOPPED}
        return any(step.status in unfinished for step in self._steps.values())

    def _result(self, status: ExecutionStatus) -> ExecutionResult:
        failed_by, failure = explain_failure(self._steps, status)
        if status is ExecutionStatus.STOPPED:
            failure = f"stopped by {self._stopped_by}"
        return ExecutionResult(
            execution_id=self._plan.facts.execution_id,
            pipeline_name=self._plan.facts.pipeline_name,
            status=status,
            steps=dict(self._steps),
            parameters=self._plan.parameters,
            failed_by=failed_by,
            failure=failure,
            folder=self._plan.journal.folder,
            started=self._plan.facts.started,
            ended=None if status is ExecutionStatus.EXECUTING else time.time(),
        )
