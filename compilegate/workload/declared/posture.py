"""`[posture]`: how a workload gets from a benchmark to its compiler alone, and back."""

from __future__ import annotations

from pydantic import Field

from compilegate.posture.policy import Policy
from compilegate.workload.declared.table import Table

_DEFAULT = Policy()


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
