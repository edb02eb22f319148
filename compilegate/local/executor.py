"""The target "here": starts, follows, resumes and stops executions on this machine.

It also decides how many jobs run at once, on how many cores each, and how long a stopped job has.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import string
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compilegate.document.graph import StepGraph, build_graph, most_in_parallel
from compilegate.document.model import Definition, Scalar
from compilegate.document.parameters import parameter_values
from compilegate.document.reading import read_definition
from compilegate.document.step_types import REGISTER_MODEL, TRAINING
from compilegate.execution.events import EnvironmentBuilding, Event
from compilegate.execution.executor import GATE_FILES
from compilegate.execution.result import ExecutionResult, StepResult
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.job.files import whole_file
from compilegate.job.names import REPROS_FOLDER, VERDICT_FILE
from compilegate.local.aws.variables import JobVariables, aws_endpoint
from compilegate.local.engine.execution import Execution
from compilegate.local.engine.plan import ExecutionPlan
from compilegate.local.engine.preflight import Image, Preflight, check_definition
from compilegate.local.engine.scope import ExecutionFacts, preflight_scope
from compilegate.local.errors import (
    ExecutionError,
    ImageEnvironmentError,
    ObjectStoreError,
    RefusedDefinitionError,
)
from compilegate.local.explain import Explanation, explain, image_text
from compilegate.local.home.images import Environment, build_environment
from compilegate.local.home.journal import Journal, check_writable, journal_of, resumable_steps
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.home.registry import list_groups, list_packages
from compilegate.local.jobs.leases import (
    CorePool,
    GpuPool,
    available_cpus,
    gpus_here,
    physical_cores,
)
from compilegate.local.jobs.sandbox import Sandboxes, choose_root, shared_folders
from compilegate.local.options import Options
from compilegate.local.selection import (
    ALL_STEPS,
    Chosen,
    Selection,
    choose,
    read_selection,
    write_selection,
)

_ABANDONED_SECONDS = 3600.0
"""Nobody takes so long over one file: it is written or linked in one go."""
_PIPELINE_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,255}")


def ignore_events(_event: Event) -> None:
    """A listener for callers who only want the result."""


@dataclass(frozen=True, kw_only=True)
class LocalExecutor(Options):
    """Executes SageMaker pipeline definitions (JSON, version 2020-12-01) without AWS and Docker.

    An execution is referred to by its id. A job that fails is no exception: it is in the result,
    with the reason.
    """

    home: Path
    """The folder of all state: executions, objects (`s3://`), registry, cache."""
    definition: bytes | str | None = None
    """What `start` executes."""
    selection: Selection = ALL_STEPS
    """Which steps `start` carries out; an execution keeps it when it is resumed."""

    def start(self, pipeline: str, parameters: Mapping[str, Scalar]) -> str:
        """Check everything, and write down an execution that `follow` carries out.

        Results are cached under the pipeline's name; text is read as the parameter's type. Raises
        RefusedDefinitionError with every reason why the definition cannot run here.
        """
        if self.definition is None:
            raise ExecutionError("a new execution needs a definition")
        if not _PIPELINE_NAME.fullmatch(pipeline):
            raise ExecutionError(
                f"the pipeline's name is {pipeline!r}, allowed: 1 to 256 letters, "
                "digits and single '-'"
            )
        check_writable(self._home)
        text = self.definition.encode() if isinstance(self.definition, str) else self.definition
        facts = ExecutionFacts(_new_id(), pipeline, time.time())
        checked = self._check(text, parameters, facts, self.selection)
        journal = Journal(self._home / "executions" / facts.execution_id)
        whole, _ = read_definition(text)
        steps = {step.name: StepResult(step.name, step.type) for step in whole.steps}
        journal.write_definition(text)
        write_selection(journal.folder, self.selection)
        self.write(journal.folder)
        journal.begin(facts.pipeline_name, facts.started, steps, checked.parameters)
        return facts.execution_id

    def resume(self, reference: str, parameters: Mapping[str, Scalar]) -> str:
        """Reopen a stopped or failed execution: what had succeeded is kept.

        Raises ExecutionError when it does not exist, is running, has ended well, or was started
        with another definition, other parameters or other options than those that are given.
        """
        journal = journal_of(self._home, reference)
        with journal.alive():
            self.as_started(journal.folder)
            result, stored = journal.read_files(), journal.definition()
            if self.definition is not None and not _same_json(self.definition, stored):
                raise ExecutionError(
                    f"the definition is not the one that execution {reference} started with; start "
                    "a new execution, which takes finished steps with a CacheConfig from the cache"
                )
            declared, _ = read_definition(stored)
            given, _ = parameter_values(declared.parameters, parameters or result.parameters)
            if given != dict(result.parameters):
                raise ExecutionError(
                    f"the parameters are not those that execution {reference} started with: "
                    f"{dict(result.parameters)}"
                )
            if result.status in {
                ExecutionStatus.SUCCEEDED,
                ExecutionStatus.COMPLETED_WITH_FAILURES,
            }:
                raise ExecutionError(
                    f"execution {reference} has ended ({result.status}): nothing to resume"
                )
            steps = resumable_steps(result)
            journal.begin(result.pipeline_name, result.started, steps, result.parameters)
        return reference

    def follow(
        self, reference: str, listener: Callable[[Event], None] = ignore_events
    ) -> ExecutionResult:
        """Carry the execution out in this process, telling the listener on the calling thread.

        Raises RefusedDefinitionError, ImageEnvironmentError when an environment cannot be built,
        and ExecutionError when another process carries it out, or with other options than these.
        """
        check_writable(self._home)
        folder = journal_of(self._home, reference).folder
        return self.as_started(folder)._follow(reference, listener)

    def _follow(self, reference: str, listener: Callable[[Event], None]) -> ExecutionResult:
        journal = journal_of(self._home, reference)
        with journal.alive():
            # Read where nobody else can change it.
            result, text = journal.read_files(), journal.definition()
            if result.status.ended:
                return result
            facts = ExecutionFacts(reference, result.pipeline_name, result.started)
            checked = self._check(text, result.parameters, facts, read_selection(journal.folder))
            resumed = any(step.attempts for step in result.steps.values())
            try:
                environments = _environments(checked.images, self._home, listener)
            except ImageEnvironmentError:
                if not resumed:
                    shutil.rmtree(
                        journal.folder
                    )  # nothing has started, so there is nothing to tell
                raise
            steps = {
                name: replace(step, status=StepStatus.NOT_EXECUTED)
                if name in checked.chosen.left_out
                else step
                for name, step in resumable_steps(result).items()
            }
            if resumed:  # its writer may have been killed in the middle of a file
                self._store.drop_abandoned(time.time() - _ABANDONED_SECONDS)
            root = choose_root(self._home, self.own_root)
            locks = self._home / "locks"
            plan = ExecutionPlan(
                facts=facts,
                graph=checked.graph,
                parameters=checked.parameters,
                environments=environments,
                functions=self.functions,
                commands=self.commands,
                models=self.given_models,
                home=self._home,
                journal=journal,
                store=self._store,
                cores=CorePool(checked.cores, locks / "cores", reference),
                cores_per_job=checked.cores_per_job,
                gpus=GpuPool(checked.gpus, locks / "gpus", reference),
                max_parallel_steps=checked.max_parallel_steps,
                sandboxes=Sandboxes(journal.jobs, root, shared_folders(self.shared)),
                use_cache=self.use_cache,
                grace_seconds=self.grace_seconds,
                resumed=resumed,
                variables=JobVariables(given=self.variables),
            )
            # A bucket that a definition names exists on AWS, though nothing lies in it here.
            named = " ".join(
                [text.decode("utf-8", "replace"), *map(str, result.parameters.values())]
            )
            uploads = journal.folder / "uploads"
            with aws_endpoint(self._store, uploads, os.environ, named) as aws:
                plan = replace(plan, variables=JobVariables(aws, self.variables))
                ended = Execution(plan, steps, listener).run()
            journal.drop_sandboxes()
            return ended

    def left_out(self, reference: str) -> Mapping[str, str]:
        """The steps that an execution does not carry out by choice, and why."""
        journal = journal_of(self._home, reference)
        whole, _ = read_definition(journal.definition())
        return choose(whole, read_selection(journal.folder))[0].left_out

    def explain(self, pipeline: str, parameters: Mapping[str, Scalar]) -> Explanation:
        """What each step of the definition would do here; nothing is started or written."""
        if self.definition is None:
            raise ExecutionError("there is nothing to explain without a definition")
        text = self.definition.encode() if isinstance(self.definition, str) else self.definition
        facts = ExecutionFacts(_new_id(), pipeline, time.time())
        read = self._read(text, parameters, facts, self.selection)
        processes = {
            step: f"a process in {image_text(read.found.images[image], image)}"
            for step, image in read.found.image_of.items()
            if image in read.found.images
        }
        functions = {
            step: f"{handler.function} of {handler.file}"
            for step, handler in read.found.handler_of.items()
        }
        return explain(
            read_definition(text)[0],
            read.chosen,
            read.faults,
            places={**processes, **functions},
            commands=self.commands,
        )

    def read(self, reference: str) -> ExecutionResult:
        """What became of an execution so far. Raises ExecutionError when there is none."""
        return journal_of(self._home, reference).read()

    def stop(self, reference: str) -> None:
        """Ask the process that carries an execution out to stop, as Ctrl-C would."""
        journal_of(self._home, reference).stop()

    def fetch_verdict(self, result: ExecutionResult) -> bool:
        """Copy the gate's files beside the execution's other files, where one looks first."""
        for uri in (uri for step in result.steps.values() for uri in _output_uris(step.properties)):
            try:
                folder = self._store.path(uri)
            except ObjectStoreError:
                continue
            if (folder / VERDICT_FILE).is_file():
                for name in GATE_FILES:
                    _copy(folder / name, result.folder / name)
                repros = folder / REPROS_FOLDER
                for path in sorted(repros.rglob("*")):
                    _copy(path, result.folder / REPROS_FOLDER / path.relative_to(repros))
                return True
        return False

    def models(self, result: ExecutionResult) -> Sequence[str]:
        """The model packages that the execution registered, or found registered."""
        arns = {
            step.properties.get("ModelPackageArn")
            for step in result.steps.values()
            if step.type == REGISTER_MODEL
        }
        return [
            f"{package.group}/{package.version}, {package.approval_status}"
            for group in list_groups(self._home)
            for package in list_packages(self._home, group)
            if package.arn in arns
        ]

    def when_stopped(self, result: ExecutionResult) -> str:
        """How to go on."""
        return f"stopped ({result.failure}); the steps that have succeeded are kept"

    @property
    def _home(self) -> Path:
        return self.home.resolve()

    @property
    def _store(self) -> ObjectStore:
        return ObjectStore(self._home / "s3")

    def _read(
        self,
        text: bytes,
        parameters: Mapping[str, Scalar],
        facts: ExecutionFacts,
        selection: Selection,
    ) -> _Read:
        chosen, faults = choose(read_definition(text)[0], selection)
        if faults:
            raise RefusedDefinitionError(*faults)
        definition, faults = read_definition(text, {*chosen.left_out, *self.commands})
        definition = chosen.applied(definition)
        values, parameter_faults = parameter_values(definition.parameters, parameters)
        gpus = gpus_here(os.environ) if self.gpus is None else tuple(self.gpus)
        found = check_definition(
            definition,
            preflight_scope(facts, values),
            self.images,
            self._store,
            gpus=len(gpus),
            functions=self.functions,
            commands=self.commands,
            models=self.given_models,
            later=self.later,
        )
        # A parameter without a value makes every expression with it a fault too: tell the cause.
        faults += parameter_faults or list(found.faults)
        return _Read(chosen, definition, values, gpus, found, tuple(faults))

    def _check(
        self,
        text: bytes,
        parameters: Mapping[str, Scalar],
        facts: ExecutionFacts,
        selection: Selection,
    ) -> _Checked:
        read = self._read(text, parameters, facts, selection)
        if read.faults:
            raise RefusedDefinitionError(*read.faults)
        definition, gpus = read.definition, read.gpus
        graph = build_graph(definition)
        cores = physical_cores(_usable_cpus(self.cores))
        limits = [
            limit
            for limit in (self.max_parallel_steps, definition.max_parallel_steps)
            if limit is not None
        ]
        limit = min(limits) if limits else None
        return _Checked(
            definition=definition,
            chosen=read.chosen,
            graph=graph,
            parameters=read.values,
            images=read.found.images,
            cores=cores,
            cores_per_job=_cores_per_job(
                len(cores),
                self.cores_per_job,
                _most_training(graph, read.found.gpus, len(gpus), limit),
            ),
            gpus=gpus,
            max_parallel_steps=limit,
        )


@dataclass(frozen=True)
class _Read:
    """A definition, what is carried out of it, and what the checks say."""

    chosen: Chosen
    definition: Definition
    values: Mapping[str, Scalar]
    gpus: tuple[str, ...]
    found: Preflight
    faults: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Checked:
    """A definition that can run here, and with what."""

    definition: Definition
    chosen: Chosen
    graph: StepGraph
    parameters: Mapping[str, Scalar]
    images: Mapping[str, Image]
    cores: Sequence[tuple[int, ...]]
    cores_per_job: int
    gpus: tuple[str, ...]
    max_parallel_steps: int | None


def _new_id() -> str:
    """Twelve lower-case letters and digits, as SageMaker's execution ids."""
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(12))


def _same_json(left: bytes | str, right: bytes | str) -> bool:
    try:
        return bool(json.loads(left) == json.loads(right))
    except ValueError:
        return False


def _usable_cpus(wanted: Collection[int] | None) -> Collection[int]:
    usable = available_cpus()
    if wanted is None:
        return usable
    if not wanted or not usable.issuperset(wanted):
        raise ExecutionError(
            f"cores are {sorted(wanted)}: choose from the CPUs of this process, {sorted(usable)}"
        )
    return wanted


def _cores_per_job(available: int, wanted: int | None, at_once: int) -> int:
    if wanted is not None:
        if not 1 <= wanted <= available:
            raise ExecutionError(
                f"{wanted} cores for each job: there are {available} physical cores here"
            )
        return wanted
    return max(1, available // max(1, at_once))


def _most_training(
    graph: StepGraph, wanted: Mapping[str, int], gpus: int, limit: int | None
) -> int:
    """How many Training steps can run at one moment; `wanted` are the GPUs of each."""
    training = [name for name, step in graph.steps.items() if step.type == TRAINING]
    at_once = most_in_parallel(graph, training)
    takers = [name for name in training if wanted.get(name)]
    if gpus and takers:
        others = most_in_parallel(graph, [name for name in training if name not in takers])
        at_once = min(at_once, others + gpus // min(wanted[name] for name in takers))
    return at_once if limit is None else min(limit, at_once)


def _environments(
    images: Mapping[str, Image], home: Path, listener: Callable[[Event], None]
) -> dict[str, Environment]:
    def ready(uri: str, image: Image) -> Environment:
        if isinstance(image, Environment):
            return image
        return build_environment(
            image, home, lambda log: listener(EnvironmentBuilding(uri, str(log)))
        )

    return {uri: ready(uri, image) for uri, image in images.items()}


def _output_uris(properties: Mapping[str, Any]) -> list[str]:
    """Where a step's outputs lie. A command says it, too, in any form."""
    section = properties.get("ProcessingOutputConfig")
    outputs = section.get("Outputs") if isinstance(section, Mapping) else None
    if isinstance(outputs, Mapping):
        outputs = list(outputs.values())
    places = [
        output.get("S3Output")
        for output in (outputs if isinstance(outputs, list) else ())
        if isinstance(output, Mapping)
    ]
    uris = [place.get("S3Uri") for place in places if isinstance(place, Mapping)]
    return [uri for uri in uris if isinstance(uri, str)]


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        with whole_file(target) as part:
            shutil.copyfile(source, part)
