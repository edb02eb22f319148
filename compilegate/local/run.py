"""One execution on this machine: what it is, and how it is carried out.

    run = LocalRun(execution=..., text=definition, home=home, options=options)
    run.check()                      # all reasons at once why it cannot run here
    run.begin()                      # written down: HOME/executions/ID
    result = run.execute(on_event)   # to the end, also after it was interrupted

One thread (the caller's) decides everything, writes the journal and calls the listener; each job
and each call that runs has a thread of its own, which sends messages to it.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

from compilegate.document.evaluation import Scope, resolve
from compilegate.document.model import Step
from compilegate.document.paths import ExpressionError
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
    StopAsked,
)
from compilegate.execution.failure import StepFailure
from compilegate.execution.result import ExecutionResult, StepResult, explain_failure
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.job.files import write_bytes
from compilegate.job.names import MACHINE_VARIABLE
from compilegate.local.aws.variables import JobVariables, aws_endpoint
from compilegate.local.cache import CachedResult, CacheSlot, cache_slot
from compilegate.local.checks import Checked, check
from compilegate.local.errors import (
    ExecutionError,
    ImageEnvironmentError,
    RefusedDefinitionError,
    StepError,
)
from compilegate.local.home.images import Environment, build_environment
from compilegate.local.home.journal import Journal, resumable_steps
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.attempt import AttemptResult, JobSlot, run_attempt
from compilegate.local.jobs.calls import Call, CommandCall, FunctionCall, find_handler
from compilegate.local.jobs.job import Job
from compilegate.local.jobs.launcher import RunningJob
from compilegate.local.jobs.leases import (
    Core,
    CoreLease,
    CorePool,
    GpuLease,
    GpuPool,
    available_cpus,
    gpus_here,
    physical_cores,
)
from compilegate.local.jobs.sandbox import Sandboxes, choose_root, own_requirements, shared_folders
from compilegate.local.options import Options
from compilegate.local.progress import Progress, most_training, retry_wait
from compilegate.local.steps import (
    INLINE_STEPS,
    JOB_REQUESTS,
    is_called,
    job_name_member,
    new_job_name,
    run_inline_step,
    scope_of_step,
    with_model,
)

# How long to wait before asking again for cores that another execution holds: seldom while jobs
# of our own are running, which are being measured, and whose ends come as messages anyway.
_POLL_SECONDS = 0.05
_POLL_SECONDS_WHILE_RUNNING = 1.0
_MESSAGES_AT_ONCE = 1_000
_MOST_WAITING = 10_000
"""Beyond so many unread messages, lines of jobs are only in their logs: a job that prints without
end must neither fill the memory nor wait for a terminal."""
_ABANDONED_SECONDS = 3600.0
"""Nobody takes so long over one file: it is written or linked in one go."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NO_CORES, _NO_GPUS = CoreLease((), ()), GpuLease((), (), {})

Listener = Callable[[Event], None]
_Work = Callable[[RunningJob, Callable[[str], None]], AttemptResult]
"""What a thread does: it has a handle to be stopped by, and passes lines on."""


@dataclass(frozen=True, kw_only=True)
class LocalRun:
    """One execution of a definition on this machine."""

    execution: ExecutionResult
    """As its files have it; before it begins, without steps."""
    text: bytes
    """The definition."""
    home: Path
    """An absolute path."""
    options: Options

    @property
    def journal(self) -> Journal:
        """Its files."""
        return Journal(self.execution.folder)

    @property
    def store(self) -> ObjectStore:
        """What stands for S3."""
        return ObjectStore(self.home / "s3")

    @cached_property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs that its jobs may use, as CUDA_VISIBLE_DEVICES names them."""
        given = self.options.gpus
        return gpus_here(os.environ) if given is None else tuple(given)

    @cached_property
    def checked(self) -> Checked:
        """The definition with all that is wrong with it."""
        return check(self.text, self.execution, self.options, self.store, gpus=len(self.gpus))

    @cached_property
    def cores(self) -> Sequence[Core]:
        """The physical cores that its jobs may use. Raises ExecutionError."""
        usable, wanted = available_cpus(), self.options.cores
        if wanted is None:
            return physical_cores(usable)
        if not wanted or not usable.issuperset(wanted):
            raise ExecutionError(
                f"cores are {sorted(wanted)}: choose from the CPUs of this process, "
                f"{sorted(usable)}"
            )
        return physical_cores(wanted)

    @cached_property
    def cores_per_job(self) -> int:
        """How many each Training job gets, and other jobs at most. Raises ExecutionError."""
        wanted, available = self.options.cores_per_job, len(self.cores)
        if wanted is None:
            jobs, limit = self.checked.jobs, self.max_parallel_steps
            gpus = {name: job.gpus for name, job in jobs.items()}
            at_once = most_training(self.checked.graph, gpus, len(self.gpus), limit)
            return max(1, available // max(1, at_once))
        if not 1 <= wanted <= available:
            raise ExecutionError(
                f"{wanted} cores for each job: there are {available} physical cores here"
            )
        return wanted

    @property
    def max_parallel_steps(self) -> int | None:
        """The most jobs at one moment, by the options and the definition."""
        both = (self.options.max_parallel_steps, self.checked.whole.max_parallel_steps)
        return min((limit for limit in both if limit is not None), default=None)

    def check(self) -> None:
        """Raise RefusedDefinitionError with every reason why it cannot run here, and
        ExecutionError for cores that this machine does not have."""
        if self.checked.faults:
            raise RefusedDefinitionError(*self.checked.faults)
        _ = self.cores_per_job

    def begin(self) -> None:
        """Write down that it is to be carried out."""
        write_bytes(self.journal.definition, self.text)
        self.options.write(self.execution.folder)
        steps = {step.name: StepResult(step.name, step.type) for step in self.checked.whole.steps}
        parameters = self.checked.parameters
        self.journal.write_execution(replace(self.execution, steps=steps, parameters=parameters))

    def execute(self, on_event: Listener) -> ExecutionResult:
        """Carry it out from where its files leave it; whoever calls holds its journal.

        Ctrl-C and SIGTERM stop the jobs and leave an execution that can be resumed. Raises
        RefusedDefinitionError, and ImageEnvironmentError when an environment cannot be built.
        """
        self.check()
        resumed = any(step.attempts for step in self.execution.steps.values())
        try:
            environments = self._environments(on_event)
        except ImageEnvironmentError:
            if not resumed:  # nothing has started, so there is nothing to keep
                shutil.rmtree(self.execution.folder)
            raise
        if resumed:  # its writer may have been killed in the middle of a file
            self.store.drop_abandoned(time.time() - _ABANDONED_SECONDS)
        root = choose_root(self.home, self.options.own_root)
        sandboxes = Sandboxes(self.journal.jobs, root, shared_folders(self.options.shared))
        # A bucket that a definition names exists on AWS, though nothing lies in it here.
        given = map(str, self.execution.parameters.values())
        named = " ".join([self.text.decode("utf-8", "replace"), *given])
        uploads = self.execution.folder / "uploads"
        with aws_endpoint(self.store, uploads, os.environ, named) as aws:
            variables = JobVariables(aws, self.options.variables)
            loop = _Loop(self, environments, sandboxes, variables, on_event)
            ended = loop.run(resumed=resumed)
        self.journal.drop_sandboxes()
        return ended

    def _environments(self, on_event: Listener) -> dict[str, Environment]:
        """By image; those that are not there yet are built."""
        found = {}
        for uri, image in self.checked.images.items():

            def report(log: Path, uri: str = uri) -> None:
                on_event(EnvironmentBuilding(uri, str(log)))

            is_there = isinstance(image, Environment)
            found[uri] = image if is_there else build_environment(image, self.home, report)
        return found


@dataclass(frozen=True)
class _Prepared:
    """A job whose request is resolved, waiting for cores and GPUs."""

    job: Job
    environment: Environment
    slot: CacheSlot | None
    """None when the step has no CacheConfig."""


@dataclass
class _Active:
    """A step between its first attempt's start and its last one's end."""

    started: float = field(default_factory=time.monotonic)
    failures: Counter[str] = field(default_factory=Counter)
    retry_at: float | None = None
    """Monotonic time of the next attempt; None while one runs."""
    job: _Prepared | None = None
    """None for a call."""
    process: RunningJob = field(default_factory=RunningJob)
    release: Callable[[], None] = lambda: None
    """Waits for the attempt's thread, and gives back what it held."""


class _Loop:
    """Starts what is ready, and writes down what ends."""

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
        """By image URI."""
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
        self._cores = CorePool(run.cores, locks / "cores", identifier)
        self._gpus = GpuPool(run.gpus, locks / "gpus", identifier)
        # A SimpleQueue may be put to from a signal handler; that is what it is for.
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        """What other threads and signals want done on the deciding thread."""
        self._prepared: dict[str, _Prepared] = {}
        self._active: dict[str, _Active] = {}
        self._signals: list[str] = []
        """Those that asked for the end, the first first."""
        self._lacks_cores = self._lacks_gpus = False
        self._waiting: set[str] = set()
        """The steps whose wait for another execution has been reported."""

    def run(self, *, resumed: bool) -> ExecutionResult:
        """Run to the end; `resumed` where an earlier run has left results."""
        with _stop_signals(lambda name: self._inbox.put(partial(self._stop, name))):
            try:
                self._report_start(resumed)
                while self._advance():
                    self._receive()
            finally:
                self._halt()  # whatever made the loop end
        return self._finish()

    def _report_start(self, resumed: bool) -> None:
        run, root, limit = self._run, self._sandboxes.root, self._run.max_parallel_steps
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
        self._listener(PathsChosen(root.own, root.sentence))

    # Deciding what happens next

    def _progress(self) -> Progress:
        return Progress(
            self._graph,
            {name: step.status for name, step in self._steps.items()},
            {n: s.outcome for n, s in self._steps.items() if s.outcome is not None},
        )

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
        """Start ready steps in definition order; True when one has already ended by that.

        A job that finds no cores is not overtaken by later jobs, or it might wait for ever; one
        that finds no GPU only by jobs that need none.
        """
        self._lacks_cores = self._lacks_gpus = False
        progress = self._progress()
        waiting = {name: at for name, each in self._active.items() if (at := each.retry_at)}
        if progress.failure_is_final():
            for name in waiting:
                self._end_step(replace(self._steps[name], status=StepStatus.FAILED))
            return bool(waiting)
        due = [name for name, at in waiting.items() if at <= time.monotonic()]
        for name in [*due, *progress.ready()]:
            step = self._graph.steps[name]
            if is_called(step, self._run.options.commands):
                self._start_call(step)
                return True
            if step.type in INLINE_STEPS:
                self._run_inline(step)
                return True
            if name not in self._prepared and not self._prepare(step):
                return True
            limit = self._run.max_parallel_steps
            if limit is None or self._running_jobs() < limit:
                self._start_job(name)
        return False

    # Steps

    def _scope(self, job_variables: Mapping[str, str]) -> Scope:
        """What a step's expressions see now."""
        run, checked = self._run, self._run.checked
        return scope_of_step(
            run.execution,
            checked.parameters,
            checked.graph,
            self._steps,
            run.store,
            job_variables=job_variables,
        )

    def _run_inline(self, step: Step) -> None:
        self._listener(StepStarted(step.name, None, 1))
        run, started = self._run, time.monotonic()
        identifier = run.execution.execution_id
        result = run_inline_step(step, self._scope({}), run.home, run.store, identifier)
        self._end_step(replace(result, seconds=time.monotonic() - started))

    def _start_call(self, step: Step) -> None:
        """Call a step's function or command."""
        try:
            call = self._call(step)
        except (ExpressionError, StepError) as error:
            self._fail(step.name, error)
            return
        self._launch(step.name, call.run, call.log)

    def _call(self, step: Step) -> Call:
        """The call of a step's function or command. Raises ExpressionError, StepError."""
        options, scope = self._run.options, self._scope({})
        folder = self._run.execution.folder / "functions" / step.name
        if step.name in options.commands:
            return CommandCall(
                step=step.name,
                command=options.commands[step.name],
                request=resolve({**step.arguments, **step.members}, scope),
                outputs=step.output_parameters,
                objects=self._run.store.root,
                folder=folder,
                grace_seconds=options.grace_seconds,
            )
        arn = resolve(step.function, scope)
        return FunctionCall(
            arn=arn,
            handler=find_handler(arn, options.functions),
            event=resolve(dict(step.arguments), scope),
            outputs=step.output_parameters,
            folder=folder,
            grace_seconds=options.grace_seconds,
            variables=self._variables,
        )

    def _fail(self, name: str, error: Exception) -> None:
        failure = StepFailure(str(error))
        self._end_step(replace(self._steps[name], status=StepStatus.FAILED, failure=failure))

    def _prepare(self, step: Step) -> bool:
        """Resolve a job step's request; False when that has ended the step (cached or failed)."""
        name = step.name
        try:
            prepared = self._job(step)
        except (ExpressionError, StepError) as error:
            self._fail(name, error)
            return False
        self._prepared[name] = prepared
        is_retry = name in self._active
        if step.cache is None or prepared.slot is None or is_retry:
            return True
        hit = prepared.slot.find(step.cache) if self._run.options.use_cache else None
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
        return hit is None

    def _job(self, step: Step) -> _Prepared:
        """The job for a step's request. Raises ExpressionError, StepError."""
        run, options = self._run, self._run.options
        name = new_job_name(run.execution.execution_id, step)
        resolved = resolve(dict(step.arguments), self._scope({job_name_member(step): name}))
        request = with_model(step, resolved, self._graph, self._steps, options.given_models)
        read = JOB_REQUESTS[step.type](request)
        job = read.job(name, self._sandboxes, run.store)
        environment = self._environments[read.image]
        if step.cache is None:
            return _Prepared(job, environment, None)
        closure = environment.closure(*own_requirements(read.input_uris, run.store))
        slot = cache_slot(
            run.home,
            run.store,
            pipeline=run.execution.pipeline_name,
            step=step.name,
            step_type=step.type,
            request=request,
            environment_identity=_identity(closure, os.environ, options.variables),
        )
        return _Prepared(job, environment, slot)

    def _start_job(self, name: str) -> None:
        """Start a job that is prepared, if cores and GPUs are free for it."""
        job = self._prepared[name].job
        if self._lacks_cores or (self._lacks_gpus and job.gpus):
            return
        gpus = self._gpus.acquire(job.gpus)
        if gpus is None:
            self._lacks_gpus = True
            self._report_wait(name, "GPUs", self._gpus.refused_by)
            return
        exclusive = self._graph.steps[name].type == TRAINING
        acquire = self._cores.acquire_exclusive if exclusive else self._cores.acquire_shared
        cores = acquire(max(self._run.cores_per_job, min(job.processes, len(self._run.cores))))
        if cores is None:
            gpus.release()
            self._lacks_cores = True
            self._report_wait(name, "cores", self._cores.refused_by)
            return
        prepared = self._prepared.pop(name)
        work = self._work(prepared, cores, gpus)
        self._launch(name, work, job.sandbox.log, job=prepared, cores=cores, gpus=gpus)

    def _report_wait(self, name: str, what: str, holders: frozenset[str]) -> None:
        """Report once for which other executions a step waits."""
        if holders and name not in self._waiting:
            self._waiting.add(name)
            self._listener(StepWaiting(name, what, tuple(sorted(holders))))

    def _work(self, prepared: _Prepared, cores: CoreLease, gpus: GpuLease) -> _Work:
        """What a job's thread does."""

        def work(process: RunningJob, on_line: Callable[[str], None]) -> AttemptResult:
            slot = JobSlot(
                environment=prepared.environment,
                cores=cores,
                gpus=gpus,
                running=process,
                grace_seconds=self._run.options.grace_seconds,
                home=self._run.home,
                variables=self._variables,
            )
            return run_attempt(prepared.job, slot, on_line)

        return work

    def _launch(
        self,
        name: str,
        work: _Work,
        log: Path,
        *,
        job: _Prepared | None = None,
        cores: CoreLease = _NO_CORES,
        gpus: GpuLease = _NO_GPUS,
    ) -> None:
        """Start an attempt on a thread of its own."""
        process = RunningJob()
        thread = threading.Thread(target=self._attempt, args=(name, work, process))

        def release() -> None:
            thread.join()
            cores.release()
            gpus.release()

        thread.start()
        active = self._active.get(name, _Active())
        self._active[name] = replace(
            active, retry_at=None, job=job, process=process, release=release
        )
        before = self._steps[name]
        step = replace(
            before,
            status=StepStatus.EXECUTING,
            attempts=before.attempts + 1,
            started=before.started or time.time(),
            job_name=None if job is None else job.job.name,
            log=log,
            failure=None,
        )
        self._update(step)
        self._listener(StepStarted(name, step.job_name, step.attempts, cores.cpus, gpus=gpus.names))

    def _attempt(self, name: str, work: _Work, process: RunningJob) -> None:
        """On the attempt's thread: run it, and send what it prints and how it ends."""

        def show_line(line: str) -> None:
            if self._inbox.qsize() < _MOST_WAITING:
                self._inbox.put(partial(self._listener, StepOutput(name, line)))

        try:
            result = work(process, show_line)
        except BaseException as error:  # noqa: BLE001  raised again on the deciding thread
            self._inbox.put(partial(_crash, error))
        else:
            self._inbox.put(partial(self._end_attempt, name, result))

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
        now = time.monotonic()
        # Not at once, where a step that is due finds no cores.
        waits = [max(_POLL_SECONDS, at - now) for a in self._active.values() if (at := a.retry_at)]
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

    def _record(self, name: str, prepared: _Prepared, result: AttemptResult) -> None:
        """Keep a result in the step cache, where the step has one."""
        job, identifier = prepared.job, self._run.execution.execution_id
        if prepared.slot is None:
            return
        try:
            entry = CachedResult(job.name, identifier, result.properties)
            prepared.slot.record(entry, job.output_uris())
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
            if again:
                active.process.kill()
            else:
                active.process.stop()
        grace = 0.0 if again else self._run.options.grace_seconds
        if running or again:
            self._listener(StopAsked(signal_name, tuple(running), grace))
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


def _identity(closure: str, machine: Mapping[str, str], given: Mapping[str, str]) -> str:
    """What a result was made in. A rehearsal in a described machine stands in for nothing else, and
    what --env passes may change everything; its values, which may be secret, are not kept."""
    described = machine.get(MACHINE_VARIABLE)
    identity = f"{closure} in {described}" if described else closure
    if not given:
        return identity
    text = json.dumps(dict(given), sort_keys=True)
    return f"{identity} with {hashlib.sha256(text.encode()).hexdigest()}"


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
