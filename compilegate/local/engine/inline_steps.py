"""The steps that run without a job: Condition, Fail, Model and RegisterModel."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compilegate.document.conditions import evaluate_all
from compilegate.document.evaluation import Scope, resolve
from compilegate.document.model import Step
from compilegate.document.paths import ExpressionError
from compilegate.document.step_types import CONDITION, FAIL, MODEL, REGISTER_MODEL
from compilegate.execution.failure import StepFailure
from compilegate.execution.result import StepResult
from compilegate.execution.status import StepStatus
from compilegate.local.errors import StepError, StepRequestError
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.home.registry import PackageOrigin, create_package, read_package_request
from compilegate.local.requests import ACCOUNT, iso_time
from compilegate.local.transform import read_containers


@dataclass(frozen=True)
class _Here:
    """Where a step runs: what it may read and write."""

    home: Path
    store: ObjectStore
    origin: PackageOrigin


def run_inline_step(
    step: Step, scope: Scope, home: Path, store: ObjectStore, execution_id: str
) -> StepResult:
    """Run one step; what it cannot do is its failure, not an exception."""
    result = StepResult(step.name, step.type, status=StepStatus.SUCCEEDED, attempts=1)
    here = _Here(home, store, PackageOrigin(execution_id, step.name))
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
        if not here.store.exists(uri):
            missing = f"ModelDataUrl {uri} is not in the local store ({here.store.path(uri)})"
            raise StepRequestError(missing)
    package = create_package(here.home, request, here.origin, here.store)
    return replace(result, properties=dict(package.description))


def _make_model(arguments: Mapping[str, Any], result: StepResult, here: _Here) -> StepResult:
    for container in read_containers(arguments):
        uri = container.data_uri
        if uri is not None and not here.store.exists(uri):
            missing = f"the model's data {uri} is not in the local store ({here.store.path(uri)})"
            raise StepRequestError(missing)
    name = arguments.get("ModelName") or f"pipelines-{here.origin.execution_id}-{result.name}"
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
