"""`[schedule]`, `[new_data]` and `[budget]`: when a workload trains again, and at what cost."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    Field,
)

from compilegate.workload.cron import read_expression, read_time_zone
from compilegate.workload.declaration.values import (
    Dollars,
    Prefix,
    Table,
    passing,
)
from compilegate.workload.parameters import (
    Approval,
    AttemptNumber,
    DataUri,
    InstanceType,
    RuntimeSeconds,
)


class Parameters(Table):
    """Values of the pipeline's parameters in scheduled executions."""

    Data: DataUri | None = None
    """The s3:// URI of the folder of the data."""
    ModelApprovalStatus: Approval | None = None
    """The status of a new model."""
    TrainingInstanceType: InstanceType | None = None
    """The instance of arms that name none."""
    MaxRuntimeInSeconds: RuntimeSeconds | None = None
    """The limit of each training job."""
    Attempt: AttemptNumber | None = None
    """Another value trains a candidate again whose step is in the cache."""

    @property
    def given(self) -> dict[str, str | int]:
        """Parameters that have a value, by name."""
        return self.model_dump(exclude_none=True)


class Schedule(Table):
    """Train again on a schedule."""

    expression: Annotated[str, passing(read_expression)]
    """Expression of EventBridge Scheduler: `rate(7 days)`, `cron(0 6 ? * MON *)`."""
    timezone: Annotated[str, passing(read_time_zone)] = "UTC"
    """The clock of a cron expression, by its IANA name."""
    enabled: bool = False
    """False: deployed, and switched off."""
    retrain: Literal["when-changed", "always"] = "when-changed"
    """`when-changed`: where data, code and arms are those of a training in the cache, its result is
    taken from there, and no model is registered again. `always`: each execution trains anew."""
    parameters: Parameters = Parameters()


class NewData(Table):
    """Train again when objects appear in the project's bucket."""

    prefix: Prefix
    """What the keys of new data begin with. Without `*`, which a policy would read as anything."""
    enabled: bool = False
    """False: deployed, and switched off."""


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
