"""What starts executions of a workload by itself: a schedule, new data, both off until turned on;
and which arms they train once they start."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from compilegate.posture.policy import Policy
from compilegate.workload.declared.table import Table
from compilegate.workload.parameters import check_parameters
from compilegate.workload.schedule import read_expression, read_time_zone

_DEFAULT = Policy()

OWN_PREFIX = "compilegate/"
"""Where executions and staging write."""


def _expression(text: str) -> str:
    read_expression(text)
    return text


def _time_zone(name: str) -> str:
    read_time_zone(name)
    return name


def _parameters(values: dict[str, str | int]) -> dict[str, str | int]:
    check_parameters(values)
    return values


def prefix_of_others(prefix: str) -> str:
    """Refuses a prefix below which the project itself writes."""
    if prefix.startswith(OWN_PREFIX) or OWN_PREFIX.startswith(prefix):
        raise ValueError(
            f"found {prefix!r}, allowed: a prefix outside {OWN_PREFIX!r}, where every execution "
            "writes and so would start the next"
        )
    return prefix


class Schedule(Table):
    """Train again on a schedule."""

    expression: Annotated[str, AfterValidator(_expression)]
    """As EventBridge Scheduler takes it: `rate(7 days)`, `cron(0 6 ? * MON *)`."""
    timezone: Annotated[str, AfterValidator(_time_zone)] = "UTC"
    """The clock of a cron expression, by its IANA name."""
    enabled: bool = False
    """False: deployed, and switched off."""
    parameters: Annotated[dict[str, str | int], AfterValidator(_parameters)] = Field(default={})
    """Values of the pipeline's parameters in scheduled executions."""


class NewData(Table):
    """Train again when objects appear in the project's bucket."""

    prefix: Annotated[
        str,
        StringConstraints(pattern=r"^[A-Za-z0-9!_.'()-][A-Za-z0-9!_.'()/-]*$", max_length=500),
        AfterValidator(prefix_of_others),
    ]
    """What the keys of new data begin with. Without `*`, which a policy would read as anything."""
    enabled: bool = False
    """False: deployed, and switched off."""


class Posture(Table):
    """`[posture]`: which arms train is decided at each execution's start. Without it all do."""

    passes: int = Field(default=_DEFAULT.passes, ge=1, le=100)
    """So many passes of the gate in a row promote a candidate, the benchmark's included; what its
    executions show together may promote it earlier."""
    shadow_days: float = Field(default=_DEFAULT.shadow_days, gt=0, le=366, allow_inf_nan=False)
    """Nothing is promoted before so many days in shadow."""
    watch_days: float = Field(default=_DEFAULT.watch_days, gt=0, le=366, allow_inf_nan=False)
    """For so many days after the promotion, models are tagged as watched."""
    audit_every: int = Field(default=_DEFAULT.audit_every, ge=2, le=1000)
    """When a candidate trains alone, one execution in so many trains all arms."""
    patience: int = Field(default=_DEFAULT.patience, ge=3, le=50)
    """Trying ends after so many executions without a promotion."""
    reference_days: float = Field(
        default=_DEFAULT.reference_days, gt=0, le=3660, allow_inf_nan=False
    )
    """Metrics that are older are not compared with; an audit renews them."""

    @property
    def policy(self) -> Policy:
        """The same in the standard library, for what runs without pydantic."""
        return Policy(**self.model_dump())
