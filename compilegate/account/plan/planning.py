"""The plan of one workload: everything the account can tell before anything is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from compilegate.account.deployed import read_pipeline
from compilegate.account.errors import AwsError, NotDeployedError
from compilegate.account.plan.changes import DefinitionChanges, compare_definitions
from compilegate.account.plan.cost import ExecutionCost, execution_cost
from compilegate.account.plan.history import PastExecution, read_history
from compilegate.account.plan.jobs import job_faults, jobs_of
from compilegate.account.plan.prediction import Prediction, predict
from compilegate.account.plan.quotas import QuotaAnswer, check_quotas, check_size, read_quotas
from compilegate.account.session import AwsSession
from compilegate.document.parameters import parameter_values
from compilegate.document.reading import read_definition
from compilegate.errors import CompilegateError


class PlanError(CompilegateError):
    """The planned definition cannot be executed as asked; a line for each reason."""


@dataclass(frozen=True)
class Plan:
    """What would be, were this checkout deployed and an execution started."""

    pipeline: str
    region: str
    deployed: bool
    changes: DefinitionChanges
    """Against nothing, when it is not deployed."""
    predictions: tuple[Prediction, ...]
    cost: ExecutionCost
    quotas: tuple[QuotaAnswer, ...]
    quotas_unknown: str | None
    """Why the account's quotas could not be read; what holds for every account is there still."""


def make_plan(
    session: AwsSession,
    pipeline: str,
    definition: str,
    *,
    given: Mapping[str, str],
    max_parallel_steps: int | None,
    now: datetime,
) -> Plan:
    """Plan an execution of `definition` (JSON) as that pipeline, with the given parameters.

    Raises PlanError for parameters that it does not take, AwsError.
    """
    planned, faults = read_definition(definition)
    parameters, wrong = parameter_values(planned.parameters, given)
    if faults or wrong:
        raise PlanError(*faults, *wrong)
    jobs = jobs_of(planned, parameters)
    if unable := job_faults(jobs):
        raise PlanError(*unable)
    deployed, history = _deployed(session, pipeline)
    predictions = predict(planned, parameters, history, now)
    quotas, quotas_unknown = _quotas(session)
    answers = [check_size(len(definition))]
    if quotas is not None:
        answers += check_quotas(planned, jobs, quotas, max_parallel_steps)
    return Plan(
        pipeline=pipeline,
        region=session.region,
        deployed=deployed is not None,
        changes=compare_definitions(deployed or "{}", definition),
        predictions=tuple(predictions.values()),
        cost=execution_cost(jobs, predictions, history, session.region),
        quotas=tuple(answers),
        quotas_unknown=quotas_unknown,
    )


def _deployed(session: AwsSession, pipeline: str) -> tuple[str | None, Sequence[PastExecution]]:
    """The deployed definition and the latest executions; None and none before the first deploy."""
    try:
        return read_pipeline(session, pipeline).definition, read_history(session, pipeline)
    except NotDeployedError:
        return None, []


def _quotas(session: AwsSession) -> tuple[Mapping[str, float] | None, str | None]:
    """The account's quotas, or why they are unknown: a plan without them is still worth having."""
    try:
        return read_quotas(session), None
    except AwsError as error:
        return None, str(error)
