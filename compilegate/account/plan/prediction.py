"""Which steps the step cache would serve, by what the latest executions ran.

The service keeps its cache to itself, so this is a prediction, by the rule that it documents: a
step is served when an earlier run of it in the same pipeline succeeded with the same arguments (of
those that count for its type) and is no older than the step's ExpireAfter. A request that names
the result of another step is the same when that step is served with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from compilegate.account.errors import asking
from compilegate.account.executions.calls import (
    execution_parameters,
    latest_executions,
    read_execution,
)
from compilegate.account.executions.state import SageMakerExecution, SageMakerStep
from compilegate.account.plan.changes import compare_values
from compilegate.account.session import AwsSession
from compilegate.document.expressions import (
    EXECUTION_VARIABLES,
    ExpressionError,
    Scope,
    StepReference,
    describe_reference,
    resolve,
    step_references,
)
from compilegate.document.model import Definition, Scalar, Step, parameter_values
from compilegate.document.reading import read_definition
from compilegate.document.step_types import STEP_TYPES

_THIS = "the execution that is planned"
MOST_FIELDS = 3
"""Fields that are named when a request has changed; the definition's changes have all."""


EXECUTIONS = 5
"""How far back it is looked. The service looks further, so that a plan errs towards "runs"."""


@dataclass(frozen=True)
class PastExecution:
    """An execution as it ended, or as far as it is."""

    state: SageMakerExecution
    definition: Definition
    parameters: Mapping[str, Scalar]

    def step(self, name: str) -> SageMakerStep | None:
        """The step of that name, once it has started."""
        return self.state.steps.get(name)


def read_history(session: AwsSession, pipeline: str, most: int = EXECUTIONS) -> list[PastExecution]:
    """The latest executions, newest first. Raises AwsError."""
    client = session.client("sagemaker")
    found = []
    for arn in latest_executions(session, pipeline, most):
        state = read_execution(client, arn)
        with asking(f"read the definition of the execution {arn}"):
            answer = client.describe_pipeline_definition_for_execution(PipelineExecutionArn=arn)
        definition, _ = read_definition(answer["PipelineDefinition"])
        given = execution_parameters(session, arn)
        values, _ = parameter_values(definition.parameters, given)
        found.append(PastExecution(state, definition, values))
    return found


@dataclass(frozen=True)
class Prediction:
    """Whether a step's result would be taken from an earlier execution, and why (not)."""

    step: str
    served: bool
    why: str
    job: str | None = None
    """ARN of the job whose result would be taken."""


def predict(
    definition: Definition,
    parameters: Mapping[str, Scalar],
    history: Sequence[PastExecution],
    now: datetime,
) -> dict[str, Prediction]:
    """By name, for every step that runs a job. `history` has the newest execution first."""
    return _Predictor(definition, parameters, history, now).all()


class _Predictor:
    def __init__(
        self,
        definition: Definition,
        parameters: Mapping[str, Scalar],
        history: Sequence[PastExecution],
        now: datetime,
    ) -> None:
        self._steps = {step.name: step for step in definition.steps if _cache_key(step)}
        self._parameters = parameters
        self._history = history
        self._arns = {past.state.arn for past in history}
        self._now = now
        self._known: dict[str, Prediction] = {}

    def all(self) -> dict[str, Prediction]:
        return {name: self._of(name) for name in self._steps}

    def _of(self, name: str) -> Prediction:
        if name not in self._known:
            # Against a cycle, which the service refuses anyway.
            self._known[name] = Prediction(name, served=False, why="waits for itself")
            self._known[name] = self._predicted(self._steps[name])
        return self._known[name]

    def _predicted(self, step: Step) -> Prediction:
        if step.cache is None:
            return Prediction(step.name, served=False, why="is never cached")
        members = _members(step)
        again = [
            name
            for name in dict.fromkeys(found.step for found in step_references(members))
            if name not in self._steps or not self._of(name).served
        ]
        if again:
            return Prediction(
                step.name, served=False, why=f"needs the result of {again[0]}, which runs again"
            )
        results = {name: str(known.job) for name, known in self._known.items() if known.served}
        request = _resolved(members, self._parameters, _THIS, results)
        why: str | None = None
        for past in self._history:
            found = past.step(step.name)
            if found is None or found.status != "Succeeded" or found.job is None:
                continue
            if found.cached_from in self._arns:
                # The run itself is looked at further on: a result's age counts from there.
                continue
            answer = self._compared(step, request, past)
            if answer.served:
                return answer
            why = why or answer.why
        why = why or "has not succeeded in the latest executions"
        return Prediction(step.name, served=False, why=why)

    def _compared(self, step: Step, request: Any, past: PastExecution) -> Prediction:
        """The prediction, were this the only earlier execution."""
        found, then = past.step(step.name), _step_of(past.definition, step.name)
        assert found is not None and found.job is not None  # noqa: S101, PT018  seen by the caller
        execution = past.state.execution_id
        before = None if then is None else _past_request(then, past)
        if before is None:
            return Prediction(step.name, False, f"the request of execution {execution} is unknown")
        changes = list(compare_values(before, request))
        if changes:
            fields = ", ".join(change.path for change in changes[:MOST_FIELDS])
            more = f" and {len(changes) - MOST_FIELDS} more" if len(changes) > MOST_FIELDS else ""
            return Prediction(step.name, False, f"asks for something else: {fields}{more}")
        age = timedelta(seconds=self._now.timestamp() - (found.ended or past.state.started))
        limit = None if step.cache is None else step.cache.expire_after
        if limit is not None and age > limit:
            why = f"its result is {_length(age)} old, allowed: {_length(limit)}"
            return Prediction(step.name, False, why)
        return Prediction(step.name, True, f"as in execution {execution}", found.job.arn)


def _length(time: timedelta) -> str:
    hours = time.total_seconds() / 3600
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"


def _members(step: Step) -> dict[str, Any]:
    """The part of a request that the cache goes by."""
    return {key: step.arguments[key] for key in _cache_key(step) if key in step.arguments}


def _cache_key(step: Step) -> tuple[str, ...]:
    """Empty where no result is ever taken; a deployed definition may have any type of step."""
    return STEP_TYPES[step.type].cache_key if step.type in STEP_TYPES else ()


def _step_of(definition: Definition, name: str) -> Step | None:
    return next((s for s in definition.steps if s.name == name and _cache_key(s)), None)


def _past_request(step: Step, past: PastExecution) -> Any:
    results = {
        found.name: found.job.arn for found in past.state.steps.values() if found.job is not None
    }
    try:
        return _resolved(_members(step), past.parameters, past.state.arn, results)
    except (ExpressionError, LookupError):
        return None


def _resolved(
    members: Mapping[str, Any],
    parameters: Mapping[str, Scalar],
    execution: str,
    results: Mapping[str, str],
) -> Any:
    """The request with every expression replaced by something that is equal when its value is.

    Raises LookupError when it names a step that has no result, ExpressionError for what names
    nothing.
    """

    def result(reference: StepReference) -> str:
        return f"{describe_reference(reference)} of {results[reference.step]}"

    scope = Scope(
        parameters=parameters,
        execution={name: f"{name} of {execution}" for name in EXECUTION_VARIABLES},
        read_property=result,
        property_file_uri=result,
        read_object=None,
    )
    return resolve(dict(members), scope)
