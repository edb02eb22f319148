"""What executions of a workload may cost, and how long one may take."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from compilegate.workload.declared.table import Table
from compilegate.workload.parameters import InstanceType

Dollars = Annotated[float, Field(gt=0, le=10_000_000, allow_inf_nan=False)]


class Budget(Table):
    """`[budget]`: nothing starts that could cost more. Without it nothing is counted."""

    execution_usd: Dollars | None = None
    """The most that one execution may cost with every job at its maximum runtime. A deployment,
    `aws plan` and `aws submit` refuse what could cost more."""
    month_usd: Dollars | None = None
    """The most that all executions of a calendar month (UTC) may cost: what the month has cost and
    the most that the next one may. `aws plan` and `aws submit` refuse a start above it; one that a
    schedule or new data made is stopped in its first seconds."""
    usd_per_hour: dict[InstanceType, Dollars] = Field(default={})
    """Your own prices by instance type, in place of the catalog's, which has none of processing.
    A processing job on a type that the catalog knows counts at its price of training."""
    hours: float = Field(default=72, gt=0, le=672, allow_inf_nan=False)
    """An execution that runs for longer is told to the people of the topic."""
