"""Runs a compiled pipeline definition on this machine: the entry point of the local runner."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from compilegate.document.graph import StepGraph, build_graph, most_in_parallel
from compilegate.document.model import Definition, Scalar
from compilegate.document.parameters import parameter_values
from compilegate.document.reading import read_definition
from compilegate.document.step_types import TRAINING
from compilegate.execution.events import EnvironmentBuilding, Event
from compilegate.execution.result import ExecutionResult, StepResult
from compilegate.local.engine.cores import CorePool, available_cpus, physical_cores
from compilegate.local.engine.execution import Execution
from compilegate.local.engine.plan import ExecutionPlan
from compilegate.local.engine.preflight import Image, check_definition
from compilegate.local.engine.progress import ExecutionStatus
from compilegate.local.engine.scope import ExecutionFacts, preflight_scope
from compilegate.local.errors import ExecutionError, RefusedDefinitionError
from compilegate.local.home.images import Environment, ImageSources, build_environment
from compilegate.local.home.journal import Journal, journal_of, resumable_steps
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.of_step import new_execution_id

DEFAULT_GRACE_SECONDS = 10.0


def ignore_events(_event: Event) -> None:
    """The listener of whoever only wants the result."""


def run_definition(
    definition: bytes | str | None,
    *,
    home: Path,
    pipeline_name: str,
    images: ImageSources,
    parameters: Mapping[str, Scalar] | None = None,
    resume: str | None = None,
    listener: Callable[[Event], None] = ignore_events,
    cores: Collection[int] | None = None,
    cores_per_job: int | None = None,
    max_parallel_steps: int | None = None,
    use_cache: bool = True,
    grace_seconds: float = DEFAULT_GRACE_SECONDS,
) -> ExecutionResult:
    """Execute a SageMaker pipeline definition (JSON, version 2020-12-01) without AWS and Docker.

    Args:
        definition: the compiled definition; None, when an execution is resumed, for its own.
        home: the folder of all state: executions, objects (`s3://`), registry, cache.
        pipeline_name: what the definition is called; results are cached under this name.
        images: which Python environments stand for the images.
        parameters: values for pipeline parameters; text is read as the parameter's type.
        resume: id of a stopped or failed execution to continue with the same definition and
            parameters; finished steps are kept.
        listener: is told every event, on the calling thread.
        cores: CPU ids to use; all that this process may use by default.
        cores_per_job: physical cores for each job; by default as many as let all Training steps
            that can run at one moment do so, at least 1. All jobs get the same number, because
            they are compared.
        max_parallel_steps: upper limit of jobs at one moment, beside the definition's own.
        use_cache: whether steps with a CacheConfig may take an earlier result.
        grace_seconds: between SIGTERM and SIGKILL when a job is stopped.

    Raises:
        RefusedDefinitionError: with every reason why it cannot run here; nothing has started.
        ImageError: an environment could not be built; nothing has started.
        ExecutionError: the execution to resume does not exist, is running or has ended well, or
            there are not the cores that were asked for.

    A job that fails is no exception: it is in the result, with the reason.
    """
    home = home.resolve()
    start = (
        _resumed_start(home, resume, definition, parameters)
        if resume
        else _fresh_start(home, pipeline_name, definition, parameters)
    )
    parsed, faults = read_definition(start.definition)
    values, parameter_faults = parameter_values(parsed.parameters, start.parameters)
    store = ObjectStore(home / "s3")
    scope = preflight_scope(start.facts, values)
    checked = check_definition(parsed, scope, images, store)
    # A parameter without a value makes every expression with it a fault too: tell the cause only.
    faults += parameter_faults or list(checked.faults)
    if faults:
        raise RefusedDefinitionError(*faults)
    graph = build_graph(parsed)
    available = physical_cores(_usable_cpus(cores))
    limit = _smaller(max_parallel_steps, parsed.max_parallel_steps)
    per_job = _cores_per_job(graph, len(available), cores_per_job, limit)
    with start.journal.alive():
        steps = _steps_to_run(start, parsed)
        plan = ExecutionPlan(
            facts=start.facts,
            graph=graph,
            parameters=values,
            environments=_environments(checked.images, home, listener),
            home=home,
            journal=start.journal,
            store=store,
            cores=CorePool(available, home / "locks" / "cores"),
            cores_per_job=per_job,
            max_parallel_steps=limit,
            use_cache=use_cache,
            grace_seconds=grace_seconds,
            resumed=start.resumed,
        )
        start.journal.write_definition(start.definition)
        return Execution(plan, steps, listener).run()


@dataclass(frozen=True)
class _Start:
    """Where an execution starts from: nothing, or what an earlier run of it left."""

    facts: ExecutionFacts
    journal: Journal
    definition: bytes
    parameters: Mapping[str, Scalar]
    resumed: bool


def _fresh_start(
    home: Path,
    pipeline_name: str,
    definition: bytes | str | None,
    parameters: Mapping[str, Scalar] | None,
) -> _Start:
    if definition is None:
        raise ExecutionError("a new execution needs a definition")
    if not _PIPELINE_NAME.fullmatch(pipeline_name):
        raise ExecutionError(
            f"the pipeline's name is {pipeline_name!r}: 1 to 256 letters, digits and single '-'"
        )
    facts = ExecutionFacts(new_execution_id(), pipeline_name, time.time())
    journal = Journal(home / "executions" / facts.execution_id)
    text = definition.encode() if isinstance(definition, str) else definition
    return _Start(facts, journal, text, parameters or {}, resumed=False)


_PIPELINE_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,255}")


def _resumed_start(
    home: Path,
    execution_id: str,
    definition: bytes | str | None,
    parameters: Mapping[str, Scalar] | None,
) -> _Start:
    journal = journal_of(home, execution_id)
    result, stored = journal.read(), journal.definition()
    if definition is not None and not _same_json(definition, stored):
        raise ExecutionError(
            f"the definition is not the one that execution {execution_id} started with: "
            f"start a new execution, finished steps with a CacheConfig will be found in the cache"
        )
    declared, _ = read_definition(stored)
    given, _ = parameter_values(declared.parameters, parameters or result.parameters)
    if given != dict(result.parameters):
        raise ExecutionError(
            f"the parameters are not those that execution {execution_id} started with: "
            f"{dict(result.parameters)}"
        )
    facts = ExecutionFacts(execution_id, result.pipeline_name, result.started)
    return _Start(facts, journal, stored, result.parameters, resumed=True)


def _same_json(left: bytes | str, right: bytes | str) -> bool:
    try:
        return bool(json.loads(left) == json.loads(right))
    except ValueError:
        return False


def _steps_to_run(start: _Start, definition: Definition) -> Mapping[str, StepResult]:
    """The steps' first states; of a resumed execution, read when nobody else can change them."""
    if not start.resumed:
        return {step.name: StepResult(step.name, step.type) for step in definition.steps}
    result = start.journal.read_files()
    if result.status in {ExecutionStatus.SUCCEEDED, ExecutionStatus.COMPLETED_WITH_FAILURES}:
        raise ExecutionError(
            f"execution {result.execution_id} has ended ({result.status}): nothing to resume"
        )
    return resumable_steps(result)


def _smaller(first: int | None, second: int | None) -> int | None:
    limits = [limit for limit in (first, second) if limit is not None]
    return min(limits) if limits else None


def _usable_cpus(wanted: Collection[int] | None) -> Collection[int]:
    usable = available_cpus()
    if wanted is None:
        return usable
    if not wanted or not usable.issuperset(wanted):
        raise ExecutionError(
            f"cores are {sorted(wanted)}: choose from the CPUs of this process, {sorted(usable)}"
        )
    return wanted


def _cores_per_job(graph: StepGraph, available: int, wanted: int | None, limit: int | None) -> int:
    if wanted is not None:
        if not 1 <= wanted <= available:
            raise ExecutionError(
                f"{wanted} cores for each job: there are {available} physical cores here"
            )
        return wanted
    training = [name for name, step in graph.steps.items() if step.type == TRAINING]
    at_once = most_in_parallel(graph, training)
    return max(1, available // max(1, at_once if limit is None else min(limit, at_once)))


def _environments(
    images: Mapping[str, Image], home: Path, listener: Callable[[Event], None]
) -> dict[str, Environment]:
    def ready(uri: str, image: Image) -> Environment:
        if isinstance(image, Environment):
            return image
        return build_environment(image, home, lambda log: listener(EnvironmentBuilding(uri, log)))

    return {uri: ready(uri, image) for uri, image in images.items()}
