"""A step of an execution: what its expressions stand for, and what carries it out.

A Training, Processing or Transform step is a job; a Lambda step, or one that a command stands for,
is a call; Condition, Fail, Model and RegisterModel are done within the runner.
"""

from __future__ import annotations

import re
import secrets
import string
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compilegate.document.conditions import evaluate_all
from compilegate.document.evaluation import Scope, Unresolved, resolve
from compilegate.document.expressions import EXECUTION_VARIABLES, StepReference, describe_reference
from compilegate.document.graph import StepGraph
from compilegate.document.model import Scalar, Step
from compilegate.document.paths import ExpressionError, lookup
from compilegate.document.step_types import (
    CONDITION,
    FAIL,
    LAMBDA,
    MODEL,
    PROCESSING,
    REGISTER_MODEL,
    STEP_TYPES,
    TRAINING,
    TRANSFORM,
)
from compilegate.execution.failure import StepFailure
from compilegate.execution.result import ExecutionResult, StepResult
from compilegate.execution.status import StepStatus
from compilegate.local.errors import StepError, StepRequestError
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.home.registry import create_package, read_package_request
from compilegate.local.jobs.processing import ProcessingRequest, read_processing_request
from compilegate.local.jobs.training import TrainingRequest, read_training_request
from compilegate.local.requests import ACCOUNT, iso_time
from compilegate.local.transform import TransformRequest, read_containers, read_transform_request

JobRequest = TrainingRequest | ProcessingRequest | TransformRequest

JOB_REQUESTS: Mapping[str, Callable[[Mapping[str, Any]], JobRequest]] = {
    TRAINING: read_training_request,
    PROCESSING: read_processing_request,
    TRANSFORM: read_transform_request,
}
"""What reads the request of each type of step that runs a job; each raises StepRequestError."""

_NAME_LIMIT = 63
_SUFFIX_CHARACTERS = 10
_ALPHABET = string.ascii_letters + string.digits


def is_called(step: Step, commands: Mapping[str, str]) -> bool:
    """Whether a function or a command carries a step out."""
    return step.type == LAMBDA or step.name in commands


# Expressions


def _execution_variables(execution: ExecutionResult) -> dict[str, str]:
    """The execution variables but for the jobs' names, as of now."""
    pipeline = f"{ACCOUNT}:pipeline/{execution.pipeline_name.lower()}"
    return {
        "StartDateTime": iso_time(execution.started),
        "CurrentDateTime": iso_time(time.time()),
        "PipelineName": execution.pipeline_name,
        "PipelineArn": pipeline,
        "PipelineExecutionId": execution.execution_id,
        "PipelineExecutionArn": f"{pipeline}/execution/{execution.execution_id}",
    }


def scope_before(execution: ExecutionResult, parameters: Mapping[str, Scalar]) -> Scope:
    """A scope in which everything that depends on a step is Unresolved."""

    def unresolved(reference: StepReference) -> Unresolved:
        return Unresolved(describe_reference(reference))

    later = {name: Unresolved(f"Execution.{name}") for name in EXECUTION_VARIABLES}
    known = {**later, **_execution_variables(execution)}
    return Scope(parameters, known, unresolved, unresolved, None)


def scope_of_step(
    execution: ExecutionResult,
    parameters: Mapping[str, Scalar],
    graph: StepGraph,
    results: Mapping[str, StepResult],
    store: ObjectStore,
    *,
    job_variables: Mapping[str, str],
) -> Scope:
    """The scope of a step whose upstream steps have ended with these results."""

    def read_property(reference: StepReference) -> Any:
        result = results[reference.step]
        try:
            return lookup(result.properties, reference.path, by_name=True)
        except ExpressionError as error:
            state = f"step {reference.step} is {result.status}"
            raise ExpressionError(f"{describe_reference(reference)}: {error}; {state}") from None

    def property_file_uri(reference: StepReference) -> str:
        named = describe_reference(reference)
        files = graph.steps[reference.step].property_files
        file = next((file for file in files if file.name == reference.path[-1]), None)
        if file is None:
            raise ExpressionError(f"{named} is not a declared property file")
        path = ("ProcessingOutputConfig", "Outputs", file.output_name, "S3Output", "S3Uri")
        folder = read_property(StepReference(reference.step, path))
        uri = f"{str(folder).rstrip('/')}/{file.file_path}"
        if not store.exists(uri):
            raise ExpressionError(
                f"{named}: step {reference.step} did not write {file.file_path} to its output "
                f"{file.output_name}; {store.path(uri)} does not exist"
            )
        return uri

    variables = {**_execution_variables(execution), **job_variables}
    return Scope(parameters, variables, read_property, property_file_uri, store.read)


# Jobs


def job_name_member(step: Step) -> str:
    """The execution variable that holds a job's own name, and the member that gives a prefix."""
    member = STEP_TYPES[step.type].job_name
    assert member is not None, step.type  # noqa: S101  for steps that run a job
    return member


def new_job_name(execution_id: str, step: Step) -> str:
    """`pipelines-EXECUTION-STEP-SUFFIX`, at most 63 characters, unique.

    A job name that the request gives in plain text replaces the first three parts.
    """
    wanted = step.arguments.get(job_name_member(step))
    base = wanted if isinstance(wanted, str) else f"pipelines-{execution_id}-{step.name}"
    base = re.sub(r"[^A-Za-z0-9]+", "-", base).lstrip("-")
    suffix = "".join(secrets.choice(_ALPHABET) for _ in range(_SUFFIX_CHARACTERS))
    return f"{base[: _NAME_LIMIT - _SUFFIX_CHARACTERS - 1].rstrip('-')}-{suffix}"


def with_model(
    step: Step,
    request: Mapping[str, Any],
    graph: StepGraph,
    results: Mapping[str, StepResult],
    models: Mapping[str, Mapping[str, Any]],
) -> Mapping[str, Any]:
    """A transform's request with the description of the model that it names.

    `models` are those that no step of the definition makes, by name. Raises StepRequestError.
    """
    if step.type != TRANSFORM:
        return request
    for name, result in results.items():
        described = result.properties
        if described.get("ModelName") == request.get("ModelName") and name in graph.steps:
            return {**request, "Model": described}
    if request.get("ModelName") in models:
        return {**request, "Model": models[str(request["ModelName"])]}
    raise StepRequestError(
        f"no Model step of this definition has made the model {request.get('ModelName')!r:.100}"
    )


# Steps without a job


@dataclass(frozen=True)
class _Here:
    """Where a step runs: what it may read and write."""

    home: Path
    store: ObjectStore
    execution_id: str

    def check_exists(self, member: str, uri: str) -> None:
        """Raise StepRequestError for an object that is absent."""
        if not self.store.exists(uri):
            place = self.store.path(uri)
            raise StepRequestError(f"{member} {uri} is not in the local store ({place})")


def run_inline_step(
    step: Step, scope: Scope, home: Path, store: ObjectStore, execution_id: str
) -> StepResult:
    """Run one step; what it cannot do is its failure, not an exception."""
    result = StepResult(step.name, step.type, status=StepStatus.SUCCEEDED, attempts=1)
    here = _Here(home, store, execution_id)
    try:
        return INLINE_STEPS[step.type](resolve(dict(step.arguments), scope), result, here)
    except (ExpressionError, StepError) as error:
        return replace(result, status=StepStatus.FAILED, failure=StepFailure(str(error)))


def _choose(arguments: Mapping[str, Any], result: StepResult, _here: _Here) -> StepResult:
    outcome = evaluate_all(arguments["Conditions"])
    return replace(result, outcome=outcome, properties={"Outcome": outcome})


def _fail(arguments: Mapping[str, Any], result: StepResult, _here: _Here) -> StepResult:
    message = str(arguments.get("ErrorMessage", ""))
    failure = StepFailure(message) if message else None
    return replace(result, status=StepStatus.FAILED, failure=failure)


def _register(arguments: Mapping[str, Any], result: StepResult, here: _Here) -> StepResult:
    request = read_package_request(arguments)
    for uri in request.model_data_uris:
        here.check_exists("ModelDataUrl", uri)
    package = create_package(
        here.home, request, here.store, execution_id=here.execution_id, step=result.name
    )
    return replace(result, properties=dict(package.description))


def _make_model(arguments: Mapping[str, Any], result: StepResult, here: _Here) -> StepResult:
    for container in read_containers(arguments):
        if container.data_uri is not None:
            here.check_exists("the model's data", container.data_uri)
    name = arguments.get("ModelName") or f"pipelines-{here.execution_id}-{result.name}"
    own = {
        "ModelName": str(name),
        "ModelArn": f"{ACCOUNT}:model/{name}",
        "CreationTime": iso_time(time.time()),
    }
    return replace(result, properties={**arguments, **own})


INLINE_STEPS: Mapping[str, Callable[[Mapping[str, Any], StepResult, _Here], StepResult]] = {
    CONDITION: _choose,
    FAIL: _fail,
    REGISTER_MODEL: _register,
    MODEL: _make_model,
}
"""How each type of step that runs no job is carried out."""
