"""Executions of one pipeline do not overlap: which ones must give way. Pure.

Every start is checked, whatever caused it: a schedule, new data, a workflow or a person. The
order of precedence is total (start, then ARN) and never depends on who looks or when, so two
starts at one moment cannot stop each other, and the older one is never stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

EXECUTING = "Executing"


@dataclass(frozen=True, order=True)
class Execution:
    """One execution of the pipeline; compared by precedence."""

    started: datetime
    arn: str
    status: str


@dataclass(frozen=True)
class Overlap:
    """Executions that must give way to an older one."""

    oldest: Execution
    newer: tuple[Execution, ...]


def overlap_of(executions: Sequence[Execution]) -> Overlap | None:
    """The executions that run at the same time; None if there is at most one.

    All but the oldest give way, not only the one that just started: so neither a retried execution,
    which keeps its place in the order, nor a lost event leaves an overlap behind.
    """
    executing = sorted(item for item in executions if item.status == EXECUTING)
    return Overlap(executing[0], tuple(executing[1:])) if len(executing) > 1 else None
