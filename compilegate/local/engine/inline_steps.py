"""The steps that run without a job: Condition, Fail and RegisterModel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from compilegate.document.conditions import evaluate_all
from compilegate.document.errors import ExpressionError
from compilegate.document.expressions import Scope, resolve
from compilegate.document.model import Step
from compilegate.execution.result import StepResult
from compilegate.local.engine.progress import StepStatus
from compilegate.local.errors import RequestError, StepError
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.home.registry import PackageOrigin, create_package, read_package_request


def run_inline_step(
    step: Step, scope: Scope, home: Path, store: ObjectStore, execution_id: str
) -> StepResult:
    """Run one step; what it cannot do is its failure, not an exception."""
    result = StepResult(step.name, step.type, status=StepStatus.SUCCEEDED, attempts=1)
    try:
        arguments = resolve(dict(step.arguments), scope)
        if step.type == "Condition":
            outcome = evaluate_all(arguments["Conditions"])
            return replace(result, outcome=outcome, properties={"Outcome": outcome})
        if step.type == "Fail":
            message = arguments.get("ErrorMessage", "")
            return replace(result, status=StepStatus.FAILED, failure=str(message))
        origin = PackageOrigin(execution_id, step.name)
        return replace(result, properties=_register(arguments, home, store, origin))
    except (ExpressionError, StepError) as error:
        return replace(result, status=StepStatus.FAILED, failure=str(error))


def _register(
    arguments: dict[str, Any], home: Path, store: ObjectStore, origin: PackageOrigin
) -> dict[str, Any]:
    request = read_package_request(arguments)
    for uri in request.model_data_uris:
        if not store.exists(uri):
            raise RequestError(f"ModelDataUrl {uri} is not in the local store ({store.path(uri)})")
    return dict(create_package(home, request, origin).description)
