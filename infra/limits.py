"""The figures of one workload's limits, known when its stack is made."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from typing import Any

import aws_cdk as cdk

from compilegate.account.plan.budget import BudgetError, bound_of, budget_faults
from compilegate.account.plan.jobs import jobs_of
from compilegate.document.model import parameter_values
from compilegate.document.reading import read_definition
from compilegate.infra.project import DeclaredWorkload
from compilegate.workload.cron import longest_gap, read_expression
from compilegate.workload.declaration.schedule import Budget

LATE_HOURS = 6.0
"""How much later than scheduled an execution may start before a message is sent."""
DAYS = 366 * 2
EPOCH = date(2026, 1, 1)
"""Any moment: a template must be the same every day."""


def limits_of(declared: DeclaredWorkload, definition: str, region: str) -> dict[str, Any]:
    """What the keeper gets to know, as `compilegate.infra.keeper.settings` reads it.

    Raises BudgetError when an execution could cost more than the workload declares: such a
    deployment would only make executions that are stopped.
    """
    workload = declared.workload
    budget = workload.budget or Budget()
    limits: dict[str, Any] = {"hours": budget.hours}
    schedule = workload.schedule
    if schedule is not None and schedule.enabled:
        gap = longest_gap(read_expression(schedule.expression), EPOCH, DAYS)
        if gap is not None:  # None for a single start
            limits["gap_hours"] = round(gap / timedelta(hours=1) + LATE_HOURS, 1)
    if workload.budget is None:
        return limits
    where = None if cdk.Token.is_unresolved(region) else region
    # A schedule may let jobs run for longer, or on another instance.
    given = {} if schedule is None else schedule.parameters.given
    read, _ = read_definition(definition)
    bounds = []
    for values in ({}, {name: str(value) for name, value in given.items()}):
        parameters, _ = parameter_values(read.parameters, values)
        bounds.append(bound_of(jobs_of(read, parameters), workload.declared_prices, where))
    bound = max(bounds, key=lambda each: (len(each.unknown), each.usd))
    if faults := budget_faults(workload.name, budget, bound):
        raise BudgetError(*faults)
    if budget.month_usd is not None:
        steps: dict[str, list[str]] = defaultdict(list)
        for step, rate in bound.rates.items():
            steps[f"{rate:.6g}"].append(step)
        limits |= {
            "month_usd": budget.month_usd,
            "most_usd": round(bound.usd, 2),
            "rates": dict(steps),
        }
    return limits
