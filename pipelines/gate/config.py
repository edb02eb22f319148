"""What the gate is told: the `[gate]` table of a workload, and the experiment to judge.

These types are read twice: as the `[gate]` table of `workloads/NAME.toml`, and as `gate.json`
inside the gate job. They are the only place where a limit of the gate has a default.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

SCHEMA_VERSION = 1
NO_ARM = "none"
"""What a decision says when no arm is sound; so no arm may be called that."""

MetricName = Literal["accuracy", "balanced_accuracy", "macro_f1", "log_loss"]
Direction = Literal["higher", "lower"]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
ArmName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9](?:[-_.]?[A-Za-z0-9])*$", max_length=63)
]
"""Part of a folder's name, `ARM--SEED`: so no path separators and no double dash."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MetricGuard(_Strict):
    """One guarded metric: the candidate may be worse by `margin` at most."""

    direction: Direction
    """Which way is better."""
    margin: float = Field(gt=0, allow_inf_nan=False)
    """How much worse is still acceptable: in the metric's own units (fractions, nats), or as a
    fraction of the baseline's value when `relative`."""
    relative: bool = False


class GateSettings(_Strict):
    """The `[gate]` table."""

    metrics: dict[MetricName, MetricGuard] = Field(min_length=1)
    confidence: float = Field(default=0.95, ge=0.5, lt=1.0)
    """Of each interval; non-inferiority is judged on the one-sided bound at this level."""
    min_speedup: float = Field(default=1.20, ge=1.0, allow_inf_nan=False)
    """Steady-state samples per second, candidate over baseline, that a candidate must reach."""
    max_recompilations: int = Field(default=0, ge=0)


class ArmDeclaration(_Strict):
    """What the workload declares about an arm; its evidence must agree."""

    compiler: str
    batch_size: int = Field(ge=1)
    learning_rate: float = Field(gt=0, allow_inf_nan=False)
    precision: Literal["fp32", "bf16"]


class Experiment(_Strict):
    """`gate.json`: everything the gate needs beside the evidence itself."""

    schema_version: Literal[1] = 1
    workload: str
    baseline: ArmName
    """Name of the baseline arm, a key of `arms`."""
    arms: dict[ArmName, ArmDeclaration]
    seeds: list[Seed] = Field(min_length=1)
    """The replicates of every arm; the first is the one whose model is released."""
    settings: GateSettings

    @property
    def candidates(self) -> tuple[str, ...]:
        """The arms that are compared with the baseline, in the order they were declared."""
        return tuple(name for name in self.arms if name != self.baseline)

    @property
    def replicates(self) -> tuple[tuple[str, int], ...]:
        """Every (arm, seed) that the experiment declares."""
        return tuple((arm, seed) for arm in self.arms for seed in self.seeds)

    @model_validator(mode="after")
    def _arms_and_seeds_can_be_told_apart(self) -> Self:
        if self.baseline not in self.arms:
            raise ValueError(
                f"baseline is {self.baseline!r}, allowed: one of the arms {', '.join(self.arms)}"
            )
        if NO_ARM in self.arms:
            raise ValueError(f"arms holds {NO_ARM!r}, which is how a decision says that none won")
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds is {self.seeds}, allowed: distinct seeds")
        return self
