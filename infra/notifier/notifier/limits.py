"""What executions may cost and how long they may take, and whether the schedule starts any. Pure.

The figures come with the function: what an hour of each step costs, and the most that one execution
can. So a start by a schedule is held to the same limit as one by a person.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.links import short_name, watch_command
from notifier.messages import Message, message
from notifier.overlap import EXECUTING, Execution


@dataclass(frozen=True)
class Limits:
    """What the workload declares; None where it declares nothing."""

    month_usd: float | None = None
    most_usd: float = 0.0
    """What one execution can cost at most."""
    rates: tuple[tuple[float, tuple[str, ...]], ...] = ()
    """US dollars an hour, and the steps that cost so much."""
    hours: float | None = None
    """How long an execution may run before people are told."""
    gap_hours: float | None = None
    """The longest time between two starts of the schedule, with what a late one may take."""


def read_limits(text: str) -> Limits:
    """As the function's environment has them: JSON, or nothing."""
    if not text:
        return Limits()
    found = json.loads(text)
    rates = tuple((float(rate), tuple(steps)) for rate, steps in found.pop("rates", {}).items())
    return Limits(rates=rates, **found)


@dataclass(frozen=True)
class StepTime:
    """How long one step of an execution took, its jobs' machines included."""

    name: str
    started: datetime | None
    ended: datetime | None
    cached: bool


def spent(limits: Limits, steps: Iterable[StepTime], now: datetime) -> float:
    """What these steps have cost in US dollars; one that runs counts until now."""
    rates = {step: rate for rate, names in limits.rates for step in names}
    return sum(
        rates.get(step.name, 0.0) * ((step.ended or now) - step.started).total_seconds() / 3600
        for step in steps
        if step.started is not None and not step.cached
    )


def month_begins(now: datetime) -> datetime:
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def is_above(limits: Limits, spent_usd: float) -> bool:
    return limits.month_usd is not None and spent_usd + limits.most_usd > limits.month_usd


def overdue(limits: Limits, executions: Sequence[Execution], now: datetime) -> list[Execution]:
    """Those that have run for longer than the workload allows."""
    if limits.hours is None:
        return []
    longest = timedelta(hours=limits.hours)
    return [
        each for each in executions if each.status == EXECUTING and now - each.started > longest
    ]


def unstarted_since(
    limits: Limits, executions: Sequence[Execution], changed: datetime, now: datetime
) -> datetime | None:
    """Since when the schedule has started nothing though it should have; None if all is well.

    A pipeline that was changed since may have got its schedule then.
    """
    if limits.gap_hours is None:
        return None
    latest = max([changed, *(each.started for each in executions)])
    return latest if now - latest > timedelta(hours=limits.gap_hours) else None


def above_message(workload: str, arn: str, limits: Limits, spent_usd: float) -> Message:
    """The message that an execution was stopped because of what it could cost."""
    return message(
        f"{workload}: execution {short_name(arn)} stopped, the month's budget does not allow it",
        [
            f"Execution {short_name(arn)} of {workload} was stopped when it started. It could cost "
            f"{limits.most_usd:,.2f} USD, this month's executions have cost {spent_usd:,.2f} USD, "
            f"and budget.month_usd allows {limits.month_usd or 0:,.2f} USD.",
            "",
            "What to do:",
            "  - Nothing: the schedule starts again next month.",
            "  - To allow more: raise budget.month_usd in the workload's file, and deploy.",
            "  - To need less: lower max_runtime_seconds in [compute], or declare fewer arms.",
        ],
    )


def overdue_message(workload: str, execution: Execution, hours: float, now: datetime) -> Message:
    """The message that an execution runs for longer than it should."""
    taken = (now - execution.started).total_seconds() / 3600
    return message(
        f"{workload}: execution {short_name(execution.arn)} has run for {taken:.0f} hours",
        [
            f"Execution {short_name(execution.arn)} of {workload} has run for {taken:.0f} hours, "
            f"more than budget.hours allows ({hours:g}). It was not stopped.",
            "",
            "What to do:",
            f"  - See what it waits for:  {watch_command(execution.arn)}",
            f"  - Stop it:                compilegate aws stop {execution.arn}",
            "  - If it may take so long: raise budget.hours in the workload's file, and deploy.",
        ],
    )


def unstarted_message(workload: str, since: datetime) -> Message:
    """The message that the schedule should have started an execution and did not."""
    return message(
        f"{workload}: the schedule has started nothing since {since:%Y-%m-%d %H:%M} UTC",
        [
            f"No execution of {workload} has started since {since:%Y-%m-%d %H:%M} UTC, though its "
            "schedule should have started one.",
            "",
            "What to do:",
            "  - Look whether somebody disabled or deleted the schedule: compare with make diff.",
            "  - Look into the dead-letter queue: a start that was refused is there, with the "
            "reason.",
            f"  - Start one by hand:  compilegate aws submit {workload}",
        ],
    )
