"""One execution on this machine: what it is, and what carries out each of its steps.

A Training, Processing or Transform step is a job; a Lambda step, or one that a command stands for,
is a call; Condition, Fail, Model and RegisterModel are done within the runner.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import string
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from compilegate.document.conditions import evaluate_all
from compilegate.document.expressions import (
    ExpressionError,
    Scope,
    StepReference,
    describe_reference,
    lookup,
    resolve,
)
from compilegate.document.model import Step
from compilegate.document.step_types import (
    CONDITION,
    FAIL,
    MODEL,
    REGISTER_MODEL,
    STEP_TYPES,
    TRANSFORM,
)
from compilegate.execution.result import ExecutionResult, StepFailure, StepResult
from compilegate.execution.status import StepStatus
from compilegate.job.contract import MACHINE_VARIABLE
from compilegate.job.files import write_bytes
from compilegate.local.cache import CacheSlot, cache_slot
from compilegate.local.checks import JOB_REQUESTS, Checked, check, execution_variables
from compilegate.local.errors import (
    ExecutionError,
    RefusedDefinitionError,
    StepError,
    StepRequestError,
)
from compilegate.local.home.images import Environment
from compilegate.local.home.journal import Journal
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.home.registry import create_package, read_package_request
from compilegate.local.jobs.calls import Call, command_call, find_handler, function_call
from compilegate.local.jobs.environment import JobVariables
from compilegate.local.jobs.job import Job
from compilegate.local.jobs.leases import Core, available_cpus, gpus_here, physical_cores
from compilegate.local.jobs.sandbox import Sandboxes, own_requirements
from compilegate.local.options import Options
from compilegate.local.progress import most_training
from compilegate.local.requests import ACCOUNT, iso_time
from compilegate.local.transform import read_containers

_NAME_LIMIT = 63
_SUFFIX_CHARACTERS = 10
_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True)
class Prepared:
    """A job whose request is resolved, waiting for cores and GPUs."""

    job: Job
    environment: Environment
    slot: CacheSlot | None
    """The cache's place; None without a CacheConfig."""


@dataclass(frozen=True, kw_only=True)
class LocalRun:
    """One execution of a definition on this machine."""

    execution: ExecutionResult
    """The execution in its files; without steps before it begins."""
    text: bytes
    home: Path
    options: Options

    @property
    def journal(self) -> Journal:
        return Journal(self.execution.folder)

    @property
    def store(self) -> ObjectStore:
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
        """The physical cores that its jobs may use: those of this process."""
        return physical_cores(available_cpus())

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
                f"{wanted} cores for each job, expected 1 to {available}: so many physical cores "
                "are here"
            )
        return wanted

    @property
    def max_parallel_steps(self) -> int | None:
        """The most jobs at one moment, by the options and the definition."""
        both = (self.options.max_parallel_steps, self.checked.whole.max_parallel_steps)
        return min((limit for limit in both if limit is not None), default=None)

    def check(self) -> None:
        """Raise RefusedDefinitionError with every reason why it cannot run here, and
        ExecutionError for more cores than this machine has."""
        if self.checked.faults:
            raise RefusedDefinitionError(*self.checked.faults)
        _ = self.cores_per_job

    def begin(self) -> None:
        write_bytes(self.journal.definition, self.text)
        self.options.write(self.execution.folder)
        steps = {step.name: StepResult(step.name, step.type) for step in self.checked.whole.steps}
        parameters = self.checked.parameters
        self.journal.write_execution(replace(self.execution, steps=steps, parameters=parameters))

    # What carries out a step, once the steps before it have ended with these results

    def scope(
        self, results: Mapping[str, StepResult], job_variables: Mapping[str, str] | None = None
    ) -> Scope:
        """What a step's expressions see; `job_variables` hold its job's name."""

        def read_property(reference: StepReference) -> Any:
            result = results[reference.step]
            try:
                return lookup(result.properties, reference.path, by_name=True)
            except ExpressionError as error:
                state = f"step {reference.step} is {result.status}"
                named = describe_reference(reference)
                raise ExpressionError(f"{named}: {error}; {state}") from None

        def property_file_uri(reference: StepReference) -> str:
            named, step = describe_reference(reference), self.checked.graph.steps[reference.step]
            files = [file for file in step.property_files if file.name == reference.path[-1]]
            if not files:
                raise ExpressionError(f"{named} is not declared as a property file")
            output = files[0].output_name
            path = ("ProcessingOutputConfig", "Outputs", output, "S3Output", "S3Uri")
            folder = read_property(StepReference(reference.step, path))
            uri = f"{str(folder).rstrip('/')}/{files[0].file_path}"
            if not self.store.exists(uri):
                raise ExpressionError(
                    f"{named}: step {reference.step} did not write {files[0].file_path} to its "
                    f"output {output}; {self.store.path(uri)} does not exist"
                )
            return uri

        known = {**execution_variables(self.execution), **(job_variables or {})}
        parameters = self.checked.parameters
        return Scope(parameters, known, read_property, property_file_uri, self.store.read)

    def prepare(
        self,
        step: Step,
        results: Mapping[str, StepResult],
        environments: Mapping[str, Environment],
        sandboxes: Sandboxes,
    ) -> Prepared:
        """The job for a step's request. Raises ExpressionError, StepError."""
        name = _new_job_name(self.execution.execution_id, step)
        scope = self.scope(results, {_job_name_member(step): name})
        request = resolve(dict(step.arguments), scope)
        if step.type == TRANSFORM:
            request["Model"] = self._model_named(request.get("ModelName"), results)
        job = JOB_REQUESTS[step.type](request)
        job.settle(name, sandboxes, self.store)
        environment = environments[job.image]
        if step.cache is None:
            return Prepared(job, environment, None)
        closure = environment.closure(*own_requirements(job.input_uris, self.store))
        # A rehearsal in a described machine stands in for nothing else, and what --env passes may
        # change everything.
        circumstances = [closure, os.environ.get(MACHINE_VARIABLE), dict(self.options.variables)]
        folder = self.home / "cache" / self.execution.pipeline_name / step.name
        identity = json.dumps(circumstances, sort_keys=True)
        slot = cache_slot(folder, self.store, step.type, request, identity)
        return Prepared(job, environment, slot)

    def _model_named(self, name: Any, results: Mapping[str, StepResult]) -> Mapping[str, Any]:
        """The description of a model that a step has made, or that --model gives."""
        for step, result in results.items():
            if result.properties.get("ModelName") == name and step in self.checked.graph.steps:
                return result.properties
        if name in self.options.given_models:
            return self.options.given_models[name]
        raise StepRequestError(f"no Model step of this definition has made the model {name!r:.100}")

    def call(self, step: Step, results: Mapping[str, StepResult], variables: JobVariables) -> Call:
        """The call of a step's function or command. Raises ExpressionError, StepError."""
        options, scope = self.options, self.scope(results)
        folder = self.execution.folder / "functions" / step.name
        if step.name in options.commands:
            return command_call(
                step,
                options.commands[step.name],
                request=resolve({**step.arguments, **step.members}, scope),
                objects=self.store.root,
                folder=folder,
                grace_seconds=options.grace_seconds,
            )
        arn = resolve(step.function, scope)
        return function_call(
            step,
            arn,
            find_handler(arn, options.functions),
            request=resolve(dict(step.arguments), scope),
            folder=folder,
            grace_seconds=options.grace_seconds,
            variables=variables,
        )

    def run_inline(self, step: Step, results: Mapping[str, StepResult]) -> StepResult:
        """Run a step that needs no job; what it cannot do is its failure, not an exception."""
        result = StepResult(step.name, step.type, status=StepStatus.SUCCEEDED, attempts=1)
        try:
            arguments = resolve(dict(step.arguments), self.scope(results))
            return INLINE_STEPS[step.type](arguments, result, self)
        except (ExpressionError, StepError) as error:
            return replace(result, status=StepStatus.FAILED, failure=StepFailure(str(error)))

    def check_exists(self, member: str, uri: str) -> None:
        if not self.store.exists(uri):
            place = self.store.path(uri)
            raise StepRequestError(f"{member} {uri} is not in the local store ({place})")


def _job_name_member(step: Step) -> str:
    """The execution variable that holds a job's own name, and the member that gives a prefix."""
    member = STEP_TYPES[step.type].job_name
    assert member is not None, step.type  # noqa: S101  for steps that run a job
    return member


def _new_job_name(execution_id: str, step: Step) -> str:
    """`pipelines-EXECUTION-STEP-SUFFIX`, at most 63 characters, unique. A job name that the request
    gives in plain text replaces the first three parts."""
    wanted = step.arguments.get(_job_name_member(step))
    base = wanted if isinstance(wanted, str) else f"pipelines-{execution_id}-{step.name}"
    base = re.sub(r"[^A-Za-z0-9]+", "-", base).lstrip("-")
    suffix = "".join(secrets.choice(_ALPHABET) for _ in range(_SUFFIX_CHARACTERS))
    return f"{base[: _NAME_LIMIT - _SUFFIX_CHARACTERS - 1].rstrip('-')}-{suffix}"


def _choose(arguments: Mapping[str, Any], result: StepResult, _run: LocalRun) -> StepResult:
    outcome = evaluate_all(arguments["Conditions"])
    return replace(result, outcome=outcome, properties={"Outcome": outcome})


def _fail(arguments: Mapping[str, Any], result: StepResult, _run: LocalRun) -> StepResult:
    message = str(arguments.get("ErrorMessage", ""))
    failure = StepFailure(message) if message else None
    return replace(result, status=StepStatus.FAILED, failure=failure)


def _register(arguments: Mapping[str, Any], result: StepResult, run: LocalRun) -> StepResult:
    request = read_package_request(arguments)
    for uri in request.model_data_uris:
        run.check_exists("ModelDataUrl", uri)
    identifier = run.execution.execution_id
    package = create_package(
        run.home, request, run.store, execution_id=identifier, step=result.name
    )
    return replace(result, properties=dict(package.description))


def _make_model(arguments: Mapping[str, Any], result: StepResult, run: LocalRun) -> StepResult:
    for container in read_containers(arguments):
        if container.data_uri is not None:
            run.check_exists("the model's data", container.data_uri)
    name = arguments.get("ModelName") or f"pipelines-{run.execution.execution_id}-{result.name}"
    own = {
        "ModelName": str(name),
        "ModelArn": f"{ACCOUNT}:model/{name}",
        "CreationTime": iso_time(time.time()),
    }
    return replace(result, properties={**arguments, **own})


INLINE_STEPS: Mapping[str, Callable[[Mapping[str, Any], StepResult, LocalRun], StepResult]] = {
    CONDITION: _choose,
    FAIL: _fail,
    REGISTER_MODEL: _register,
    MODEL: _make_model,
}
"""How each type of step that runs no job is carried out."""
