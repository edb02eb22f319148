"""One execution on this machine: what it is, and how it is carried out.

    run = LocalRun(facts=..., text=definition, given=parameters, home=home, options=options)
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
import secrets
import shutil
import signal
import string
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import FrameType

from compilegate.document.evaluation import Scope, resolve
from compilegate.document.model import Scalar, Step
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
    Lease,
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
    Facts,
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
_LINES_AT_ONCE = 1_000
_MOST_WAITING = 10_000
"""Beyond so many unread messages, lines of jobs are only in their logs: a job that prints without
end must neither fill the memory nor wait for a terminal."""
_ABANDONED_SECONDS = 3600.0
"""Nobody takes so long over one file: it is written or linked in one go."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Listener = Callable[[Event], None]


@dataclass(frozen=True, kw_only=True)
class LocalRun:
    """One execution of a definition on this machine."""

    facts: Facts
    text: bytes
    """The definition."""
    given: Mapping[str, Scalar]
    """The parameters, text or of their types."""
    home: Path
    """An absolute path."""
    options: Options

    @classmethod
    def new(
        cls,
        text: bytes,
        pipeline: str,
        given: Mapping[str, Scalar],
        home: Path,
        options: Options,
    ) -> LocalRun:
        """A run that has not begun; its ID has twelve lower-case letters and digits, as
        SageMaker's."""
        alphabet = string.ascii_lowercase + string.digits
        identifier = "".join(secrets.choice(alphabet) for _ in range(12))
        facts = Facts(identifier, pipeline, time.time())
        return cls(facts=facts, text=text, given=given, home=home, options=options)

    @classmethod
    def begun(cls, result: ExecutionResult, text: bytes, home: Path, options: Options) -> LocalRun:
        """A run as its files have it."""
        facts = Facts(result.execution_id, result.pipeline_name, result.started)
        return cls(facts=facts, text=text, given=result.parameters, home=home, options=options)

    @property
    def journal(self) -> Journal:
        """Its files."""
        return Journal(self.home / "executions" / self.facts.execution_id)

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
        store, gpus = self.store, len(self.gpus)
        return check(self.text, self.given, self.facts, self.options, store, gpus=gpus)

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
            checked, limit, gpus = self.checked, self.max_parallel_steps, len(self.gpus)
            at_once = most_training(checked.graph, checked.gpus, gpus, limit)
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
        journal, steps = self.journal, self.checked.whole.steps
        journal.write_definition(self.text)
        self.options.write(journal.folder)
        results = {step.name: StepResult(step.name, step.type) for step in steps}
        facts = self.facts
        journal.begin(facts.pipeline_name, facts.started, results, self.checked.parameters)

    def execute(self, before: ExecutionResult, on_event: Listener) -> ExecutionResult:
        """Carry it out from where its files, `before`, leave it; whoever calls holds its journal.

        Ctrl-C and SIGTERM stop the jobs and leave an execution that can be resumed. Raises
        RefusedDefinitionError, and ImageEnvironmentError when an environment cannot be built.
        """
        self.check()
        resumed = any(step.attempts for step in before.steps.values())
        try:
            environments = self._environments(on_event)
        except ImageEnvironmentError:
            if not resumed:  # nothing has started, so there is nothing to keep
                shutil.rmtree(self.journal.folder)
            raise
        if resumed:  # its writer may have been killed in the middle of a file
            self.store.drop_abandoned(time.time() - _ABANDONED_SECONDS)
        steps = {
            name: replace(step, status=StepStatus.NOT_EXECUTED)
            if name in self.checked.left_out
            else step
            for name, step in resumable_steps(before).items()
        }
        root = choose_root(self.home, self.options.own_root)
        sandboxes = Sandboxes(self.journal.jobs, root, shared_folders(self.options.shared))
        # A bucket that a definition names exists on AWS, though nothing lies in it here.
        named = " ".join([self.text.decode("utf-8", "replace"), *map(str, self.given.values())])
        uploads = self.journal.folder / "uploads"
        with aws_endpoint(self.store, uploads, os.environ, named) as aws:
            variables = JobVariables(aws, self.options.variables)
            makers = _Makers(self, environments, sandboxes, variables)
            ended = _Loop(self, makers, steps, on_event).run(resumed=resumed)
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


@dataclass(frozen=True)
class _Makers:
    """Make what carries out a step, once the steps before it have ended."""

    run: LocalRun
    environments: Mapping[str, Environment]
    """By image URI."""
    sandboxes: Sandboxes
    variables: JobVariables
    """What every job's environment has besides its own."""

    def scope(self, results: Mapping[str, StepResult], job: Mapping[str, str]) -> Scope:
        """What the step's expressions see; `job` holds the variable with its job's name."""
        run, checked = self.run, self.run.checked
        return scope_of_step(
            run.facts, checked.parameters, checked.graph, results, run.store, job_variables=job
        )

    def job(self, step: Step, results: Mapping[str, StepResult]) -> _Prepared:
        """The job for a step's request. Raises ExpressionError, StepError."""
        run, options = self.run, self.run.options
        name = new_job_name(run.facts.execution_id, step)
        resolved = resolve(dict(step.arguments), self.scope(results, {job_name_member(step): name}))
        models = options.given_models
        request = with_model(step, resolved, run.checked.graph, results, models)
        job = JOB_REQUESTS[step.type](request)
        job.settle(name, self.sandboxes, run.store)
        environment = self.environments[job.image]
        if step.cache is None:
            return _Prepared(job, environment, None)
        slot = cache_slot(
            run.home,
            run.store,
            pipeline=run.facts.pipeline_name,
            step=step.name,
            step_type=step.type,
            request=request,
            environment_identity=_identity(
                environment.closure(*own_requirements(job.input_uris, run.store)),
                os.environ,
                options.variables,
            ),
        )
        return _Prepared(job, environment, slot)

    def call(self, step: Step, results: Mapping[str, StepResult]) -> Call:
        """The call of a step's function or command. Raises ExpressionError, StepError."""
        run, options = self.run, self.run.options
        scope = self.scope(results, {})
        folder = run.journal.folder / "functions" / step.name
        if step.name in options.commands:
            return CommandCall(
                step=step.name,
                command=options.commands[step.name],
                request=resolve({**step.arguments, **step.members}, scope),
                outputs=step.output_parameters,
                objects=run.store.root,
                folder=folder,
                grace_seconds=options.grace_seconds,
            )
        arn = resolve(step.function, scope)
        return FunctionCall(
            arn=arn,
            handler=find_handler(arn, options.functions),
            request=resolve(dict(step.arguments), scope),
            outputs=step.output_parameters,
            folder=folder,
            grace_seconds=options.grace_seconds,
            variables=self.variables,
        )

    def work(self, prepared: _Prepared, cores: CoreLease, gpus: GpuLease) -> _Work:
        """What the job's thread does."""

        def work(process: RunningJob, on_line: Callable[[str], None]) -> AttemptResult:
            slot = JobSlot(
                environment=prepared.environment,
                cores=cores,
                gpus=gpus,
                running=process,
                grace_seconds=self.run.options.grace_seconds,
                home=self.run.home,
                variables=self.variables,
            )
            return run_attempt(prepared.job, slot, on_line)

        return work


def _identity(closure: str, machine: Mapping[str, str], given: Mapping[str, str]) -> str:
    """What a result was made in. A rehearsal in a described machine stands in for nothing else, and
    what --env passes may change everything; its values, which may be secret, are not kept."""
    described = machine.get(MACHINE_VARIABLE)
    identity = f"{closure} in {described}" if described else closure
    if not given:
        return identity
    text = json.dumps(dict(given), sort_keys=True)
    return f"{identity} with {hashlib.sha256(text.encode()).hexdigest()}"


_Work = Callable[[RunningJob, Callable[[str], None]], AttemptResult]
"""What a thread does: it has a handle to be stopped by, and passes lines on."""


@dataclass(frozen=True)
class _Attempt:
    """A job or a call that runs."""

    prepared: _Prepared | None
    """None for a call."""
    leases: tuple[Lease, ...]
    process: RunningJob
    thread: threading.Thread


@dataclass
class _Active:
    """A step between its first attempt's start and its last one's end."""

    started: float
    """Monotonic time."""
    failures: Counter[str] = field(default_factory=Counter)
    attempt: _Attempt | None = None
    """What runs; None while the next attempt is waited for."""
    retry_at: float | None = None
    """Monotonic time of the next attempt."""


@dataclass(frozen=True)
class _Ended:
    """An attempt has ended, or could not be run."""

    step: str
    result: AttemptResult


@dataclass(frozen=True)
class _Crashed:
    """A fault of this program, not of the job."""

    error: BaseException


@dataclass(frozen=True)
class _StopRequested:
    """A signal asks for the execution's end."""

    signal_name: str


class _Loop:
    """Starts what is ready, and writes down what ends."""

    def __init__(
        self,
        run: LocalRun,
        makers: _Makers,
        steps: Mapping[str, StepResult],
        listener: Listener,
    ) -> None:
        locks, identifier = run.home / "locks", run.facts.execution_id
        self._run = run
        self._makers = makers
        self._steps = dict(steps)
        self._listener = listener
        self._graph = run.checked.graph
        self._cores = CorePool(run.cores, locks / "cores", identifier)
        self._gpus = GpuPool(run.gpus, locks / "gpus", identifier)
        self._inbox: queue.SimpleQueue[StepOutput | _Ended | _Crashed | _StopRequested] = (
            queue.SimpleQueue()
        )
        self._prepared: dict[str, _Prepared] = {}
        self._active: dict[str, _Active] = {}
        self._signals: list[str] = []
        """Those that asked for the end, the first first."""
        self._lacks_cores = self._lacks_gpus = False
        self._waiting: set[str] = set()
        """The steps whose wait for another execution has been reported."""

    def run(self, *, resumed: bool) -> ExecutionResult:
        """Run to the end; `resumed` where an earlier run has left results."""
        # A SimpleQueue may be put to from a signal handler; that is what it is for.
        with _stop_signals(lambda name: self._inbox.put(_StopRequested(name))):
            try:
                self._report_start(resumed)
                while self._advance():
                    self._receive()
            finally:
                self._halt()  # whatever made the loop end
        return self._finish()

    def _report_start(self, resumed: bool) -> None:
        run, root = self._run, self._makers.sandboxes.root
        limit = run.max_parallel_steps
        at_once = max(1, len(run.cores) // run.cores_per_job)
        jobs = {
            name: step.status
            for name, step in self._steps.items()
            if (known := STEP_TYPES.get(step.type)) is not None and known.job_name is not None
        }
        self._listener(
            ExecutionStarted(
                run.facts.execution_id,
                run.facts.pipeline_name,
                run.facts.execution_id,
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

    def _running(self) -> dict[str, _Attempt]:
        return {n: each.attempt for n, each in self._active.items() if each.attempt is not None}

    def _running_jobs(self) -> int:
        """How many jobs run; calls hold no core."""
        return sum(each.prepared is not None for each in self._running().values())

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
        waiting = {n: each.retry_at for n, each in self._active.items() if each.retry_at}
        if progress.failure_is_final():
            for name in waiting:
                self._end_step(replace(self._steps[name], status=StepStatus.FAILED))
            return bool(waiting)
        due = [name for name, at in waiting.items() if at <= time.monotonic()]
        for name in [*due, *progress.ready()]:
            step = self._graph.steps[name]
            if is_called(step, self._run.options.commands):
                self._call(step)
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

    def _run_inline(self, step: Step) -> None:
        self._listener(StepStarted(step.name, None, 1))
        run, started = self._run, time.monotonic()
        scope = self._makers.scope(self._steps, {})
        result = run_inline_step(step, scope, run.home, run.store, run.facts.execution_id)
        self._end_step(replace(result, seconds=time.monotonic() - started))

    def _call(self, step: Step) -> None:
        """Call a step's function or command."""
        try:
            call = self._makers.call(step, self._steps)
        except (ExpressionError, StepError) as error:
            self._fail(step.name, error)
            return
        self._launch(step.name, call.run, call.log)

    def _fail(self, name: str, error: Exception) -> None:
        failure = StepFailure(str(error))
        self._end_step(replace(self._steps[name], status=StepStatus.FAILED, failure=failure))

    def _prepare(self, step: Step) -> bool:
        """Resolve a job step's request; False when that has ended the step (cached or failed)."""
        name = step.name
        try:
            prepared = self._makers.job(step, self._steps)
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
        work = self._makers.work(prepared, cores, gpus)
        self._launch(name, work, job.sandbox.log, prepared=prepared, cores=cores, gpus=gpus)

    def _report_wait(self, name: str, what: str, holders: frozenset[str]) -> None:
        """Report once for which other executions a step waits."""
        if holders and name not in self._waiting:
            self._waiting.add(name)
            self._listener(StepWaiting(name, what, tuple(sorted(holders))))

    def _launch(
        self,
        name: str,
        work: _Work,
        log: Path,
        *,
        prepared: _Prepared | None = None,
        cores: CoreLease | None = None,
        gpus: GpuLease | None = None,
    ) -> None:
        """Start an attempt on a thread of its own."""
        process = RunningJob()
        thread = threading.Thread(target=self._work, args=(name, work, process))
        leases = tuple(lease for lease in (cores, gpus) if lease is not None)
        active = self._active.setdefault(name, _Active(time.monotonic()))
        thread.start()
        active.attempt, active.retry_at = _Attempt(prepared, leases, process, thread), None
        before = self._steps[name]
        step = replace(
            before,
            status=StepStatus.EXECUTING,
            attempts=before.attempts + 1,
            started=before.started or time.time(),
            job_name=None if prepared is None else prepared.job.name,
            log=log,
            failure=None,
        )
        self._update(step)
        cpus, names = () if cores is None else cores.cpus, () if gpus is None else gpus.names
        self._listener(StepStarted(name, step.job_name, step.attempts, cpus, gpus=names))

    def _work(self, name: str, work: _Work, process: RunningJob) -> None:
        """On the attempt's thread: run it, and send what it prints and how it ends."""

        def show_line(line: str) -> None:
            if self._inbox.qsize() < _MOST_WAITING:
                self._inbox.put(StepOutput(name, line))

        try:
            self._inbox.put(_Ended(name, work(process, show_line)))
        except BaseException as error:  # noqa: BLE001  raised again on the deciding thread
            self._inbox.put(_Crashed(error))

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
        elif isinstance(message, _Ended):
            self._end_attempt(message.step, message.result)
        elif isinstance(message, _StopRequested):
            self._stop(message.signal_name)
        else:
            raise message.error

    def _patience(self) -> float | None:
        """Seconds until something may change without a message; None when nothing can."""
        now = time.monotonic()
        waits = [each.retry_at - now for each in self._active.values() if each.retry_at]
        if self._lacks_cores or self._lacks_gpus:
            waits.append(_POLL_SECONDS_WHILE_RUNNING if self._running_jobs() else _POLL_SECONDS)
        return max(0.0, min(waits)) if waits else None

    def _collect(self, name: str) -> _Attempt:
        """Release what an ended attempt held."""
        active = self._active[name]
        attempt, active.attempt = active.attempt, None
        assert attempt is not None  # noqa: S101  for a step that runs
        attempt.thread.join()
        for lease in attempt.leases:
            lease.release()
        return attempt

    def _end_attempt(self, name: str, result: AttemptResult) -> None:
        prepared, active = self._collect(name).prepared, self._active[name]
        step = replace(self._steps[name], failure=result.failure, properties=result.properties)
        if result.status == "Completed":
            self._end_step(replace(step, status=StepStatus.SUCCEEDED))
            # What failed, the machine's doing or not, is tried again.
            if result.failure is None and prepared is not None and prepared.slot is not None:
                self._record(name, prepared.job, prepared.slot, result)
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

    def _record(self, name: str, job: Job, slot: CacheSlot, result: AttemptResult) -> None:
        identifier = self._run.facts.execution_id
        try:
            entry = CachedResult(job.name, identifier, result.properties)
            slot.record(entry, job.output_uris())
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
        for attempt in running.values():
            if again:
                attempt.process.kill()
            else:
                attempt.process.stop()
        grace = 0.0 if again else self._run.options.grace_seconds
        if running or again:
            self._listener(StopAsked(signal_name, tuple(running), grace))
        self._lacks_cores = self._lacks_gpus = False
        for name in set(self._active) - set(running):
            self._end_step(replace(self._steps[name], status=StepStatus.STOPPED))

    def _halt(self) -> None:
        """Leave no process and no thread behind."""
        running = self._running()
        for attempt in running.values():
            attempt.process.stop()
        for name in running:
            self._collect(name)

    def _finish(self) -> ExecutionResult:
        run, status = self._run, self._progress().final_status()
        unfinished = {StepStatus.WAITING, StepStatus.EXECUTING, StepStatus.STOPPED}
        if self._signals and any(step.status in unfinished for step in self._steps.values()):
            status = ExecutionStatus.STOPPED
        failed_by, failure = explain_failure(self._steps, status)
        if status is ExecutionStatus.STOPPED:
            failure = f"stopped by {self._signals[0]}"
        result = ExecutionResult(
            execution_id=run.facts.execution_id,
            pipeline_name=run.facts.pipeline_name,
            status=status,
            steps=dict(self._steps),
            parameters=run.checked.parameters,
            failed_by=failed_by,
            failure=failure,
            folder=run.journal.folder,
            started=run.facts.started,
            ended=time.time(),
        )
        run.journal.write_execution(result)
        self._listener(ExecutionEnded(result.execution_id, status, failure))
        return result


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
