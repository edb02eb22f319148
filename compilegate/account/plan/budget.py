"""What a workload's executions may cost, against what they could. Pure but for requests to AWS.

A bound that misses a job is none: a job whose price is unknown is a reason to refuse, with the key
that declares its price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from compilegate.account.errors import aws_errors
from compilegate.account.executions import executions_of, list_steps
from compilegate.account.plan.jobs import PlannedJob
from compilegate.account.session import AwsSession
from compilegate.catalog import Price, price_of
from compilegate.errors import CompilegateError
from compilegate.workload import Workload
from compilegate.workload.declaration.schedule import Budget


class BudgetError(CompilegateError):
    """An execution could cost more than its workload declares; a line for each reason."""


@dataclass(frozen=True)
class Bound:
    """The most that an execution can cost, its jobs tried once each and nothing from the cache."""

    rates: Mapping[str, float]
    usd_of: Mapping[str, float]
    """US dollars by step, each at its maximum runtime."""
    unknown: tuple[str, ...]
    """Why the bound misses jobs."""

    @property
    def usd(self) -> float:
        return sum(self.usd_of.values())


def bound_of(jobs: Sequence[PlannedJob], prices: Mapping[str, float], region: str | None) -> Bound:
    """The bound of these jobs; `prices` are those that the workload's file declares."""
    rates: dict[str, float] = {}
    usd_of: dict[str, float] = {}
    unknown: dict[str, None] = {}
    for job in jobs:
        price = price_of(job.instance_type, region, prices)
        if not isinstance(price, Price):
            where = f" in {region}" if region else ""
            unknown[
                f"there is no price of {job.instance_type}{where}: declare it in "
                "[budget.usd_per_hour]"
            ] = None
            continue
        rates[job.step] = price.usd_per_hour * job.instances
        if job.max_seconds is None:
            unknown[f"the step {job.step} has no maximum runtime"] = None
        else:
            usd_of[job.step] = rates[job.step] * job.max_seconds / 3600
    return Bound(rates, usd_of, tuple(unknown))


def budget_faults(
    workload: str, budget: Budget | None, bound: Bound, spent_usd: float | None = None
) -> list[str]:
    """A sentence for each limit that an execution could exceed; `spent_usd` is what the month's
    executions have cost, None where that is unknown."""
    if budget is None or (budget.execution_usd is None and budget.month_usd is None):
        return []
    file = f"workloads/{workload}.toml"
    found = [f"{file}: budget: {reason}" for reason in bound.unknown]
    if budget.execution_usd is not None and bound.usd > budget.execution_usd:
        found.append(
            f"{file}: budget.execution_usd: an execution could cost {bound.usd:,.2f} USD, allowed: "
            f"{budget.execution_usd:,.2f}; lower max_runtime_seconds in [compute], declare fewer "
            "arms or seeds, or allow more"
        )
    if budget.month_usd is not None and (spent_usd or 0.0) + bound.usd > budget.month_usd:
        so_far = "" if spent_usd is None else f" after {spent_usd:,.2f} USD this month"
        found.append(
            f"{file}: budget.month_usd: an execution could cost {bound.usd:,.2f} USD{so_far}, "
            f"allowed: {budget.month_usd:,.2f} in a month"
        )
    return found


def over_budget(
    session: AwsSession,
    pipeline: str | None,
    workload: Workload,
    jobs: Sequence[PlannedJob],
    now: datetime,
) -> tuple[str, ...]:
    """A sentence for each limit of the workload that an execution of these jobs could exceed;
    `pipeline` is None before it is deployed. Raises AwsError."""
    budget = workload.budget
    if budget is None:
        return ()
    bound = bound_of(jobs, workload.declared_prices, session.region)
    spent = None
    if pipeline is not None and budget.month_usd is not None:
        spent = spent_this_month(session, pipeline, bound.rates, now)
    return tuple(budget_faults(workload.name, budget, bound, spent))


def spent_this_month(
    session: AwsSession, pipeline: str, rates: Mapping[str, float], now: datetime
) -> float:
    """What the executions that began this month (UTC) have cost, by the times of their steps.

    A step's time includes what AWS does not charge, such as the search for machines, so that this
    is no less than the bill of the jobs. Raises AwsError.
    """
    first = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    usd = 0.0
    with aws_errors(f"read what the executions of {pipeline} took this month"):
        for summary in executions_of(session, pipeline, CreatedAfter=first):
            for step in list_steps(session, summary["PipelineExecutionArn"]):
                started = step.get("StartTime")
                if started is not None and "CacheHitResult" not in step:
                    seconds = ((step.get("EndTime") or now) - started).total_seconds()
                    usd += rates.get(step["StepName"], 0.0) * max(seconds, 0.0) / 3600
    return usd
