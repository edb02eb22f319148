"""The plan of one workload: everything the account can tell before anything is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from compilegate.account.deployed import read_pipeline
from compilegate.account.errors import AwsError, NotDeployedError
from compilegate.account.plan.budget import over_budget
from compilegate.account.plan.changes import DefinitionChanges, compare_definitions
from compilegate.account.plan.cost import (
    ExecutionCost,
    NetworkCost,
    Storage,
    execution_cost,
    network_cost,
    read_storage,
)
from compilegate.account.plan.jobs import PlanError, PlannedJob, jobs_given
from compilegate.account.plan.prediction import PastExecution, Prediction, predict, read_history
from compilegate.account.plan.quotas import (
    QuotaAnswer,
    check_builds,
    check_quotas,
    check_size,
    read_quotas,
)
from compilegate.account.session import AwsSession
from compilegate.account.settings import Settings
from compilegate.document.model import Definition
from compilegate.document.reading import read_definition
from compilegate.workload import Workload
from compilegate.workload.schedule import read_expression, starts_within

YEAR = 365


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
    storage: Storage | None = None
    """What the workload keeps in the bucket; None before the first deployment."""
    storage_unknown: str | None = None
    """Why that could not be read."""
    network: NetworkCost | None = None
    """What the network costs that the project makes; None where it makes none."""
    over_budget: tuple[str, ...] = ()
    """Why an execution may not start: what the workload allows it to cost."""


def make_plan(
    session: AwsSession,
    pipeline: str,
    definition: str,
    workload: Workload,
    *,
    given: Mapping[str, str],
    settings: Settings,
    bucket: str,
    unbuilt: Sequence[str],
    now: datetime,
) -> Plan:
    """Plan an execution of `definition` (JSON) as that pipeline, with the given parameters.

    `unbuilt` are the images that it runs in and that are not there yet.

    Raises PlanError for parameters that it does not take, AwsError.
    """
    planned, faults = read_definition(definition)
    if faults:
        raise PlanError(*faults)
    parameters, jobs = jobs_given(planned, given)
    deployed, history = _deployed(session, pipeline)
    predictions = predict(planned, parameters, history, now)
    answers, quotas_unknown = _quotas(
        session, planned, jobs, workload=workload, settings=settings, unbuilt=unbuilt
    )
    storage, storage_unknown = None, None
    if deployed is not None:
        storage, storage_unknown = _storage(session, bucket, workload, now)
    return Plan(
        pipeline=pipeline,
        region=session.region,
        deployed=deployed is not None,
        changes=compare_definitions(deployed or "{}", definition),
        predictions=tuple(predictions.values()),
        cost=execution_cost(jobs, predictions, history, session.region),
        quotas=(check_size(len(definition)), *answers),
        quotas_unknown=quotas_unknown,
        storage=storage,
        storage_unknown=storage_unknown,
        network=network_cost(settings.network, session.region),
        over_budget=over_budget(session, pipeline if deployed else None, workload, jobs, now),
    )


def _deployed(session: AwsSession, pipeline: str) -> tuple[str | None, Sequence[PastExecution]]:
    """The deployed definition and the latest executions; None and none before the first deploy."""
    try:
        return read_pipeline(session, pipeline).definition, read_history(session, pipeline)
    except NotDeployedError:
        return None, []


def _storage(
    session: AwsSession, bucket: str, workload: Workload, now: datetime
) -> tuple[Storage | None, str | None]:
    """What lies in the bucket, or why that is unknown, which is no reason to give no plan."""
    schedule, starts = workload.schedule, 0
    if schedule is not None and schedule.enabled:
        starts = starts_within(read_expression(schedule.expression), now.date(), YEAR)
    try:
        return read_storage(session, bucket, workload.name, starts), None
    except AwsError as error:
        return None, str(error)


def _quotas(
    session: AwsSession,
    planned: Definition,
    jobs: Sequence[PlannedJob],
    *,
    workload: Workload,
    settings: Settings,
    unbuilt: Sequence[str],
) -> tuple[list[QuotaAnswer], str | None]:
    """What the account's quotas say, or why they are unknown: a plan without them is still worth
    having."""
    answers: list[QuotaAnswer] = []
    at_once = workload.compute.max_parallel_steps
    try:
        answers += check_quotas(planned, jobs, read_quotas(session), at_once)
        if unbuilt:
            of_builds = read_quotas(session, "codebuild")
            answers.append(check_builds(settings.images.build_machine, len(unbuilt), of_builds))
    except AwsError as error:
        return answers, str(error)
    return answers, None
