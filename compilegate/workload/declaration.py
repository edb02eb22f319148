"""The declared file as types. What is not declared here is not accepted there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    StringConstraints,
    model_validator,
)

from compilegate.gate.settings import NO_ARM, Seed
from compilegate.workload.arm import Arm
from compilegate.workload.data import Data, TextClassificationData
from compilegate.workload.gate import Gate
from compilegate.workload.kind import Kind, kind_of
from compilegate.workload.parameters import (
    LONGEST_JOB_SECONDS,
    MAX_RUNTIME,
    Approval,
    InstanceType,
    RuntimeSeconds,
)
from compilegate.workload.plan import settled_arms
from compilegate.workload.program import CHALLENGER, Champion, Program, Succession
from compilegate.workload.recipe import HubModel, Model, Recipe
from compilegate.workload.starts import NewData, Schedule
from compilegate.workload.table import Table, Text

BASELINE = "baseline"

LARGEST_EXPERIMENT = 72
"""Training jobs of one execution: evidence travels through inputs of a processing job, of which
the service allows ten. The gate takes eight (the others are its program and the experiment), each
gathered from nine."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z](?:-?[a-z0-9])*$", max_length=40)]


class Compute(Table):
    """Where the jobs run on SageMaker. A local run uses this machine and only records them."""

    instance_type: InstanceType = "ml.g5.xlarge"
    processing_instance_type: InstanceType = "ml.m5.xlarge"
    volume_gb: int = Field(default=50, ge=1, le=16384)
    max_runtime_seconds: RuntimeSeconds = 86400
    """Of each training job; the service's own limit is 28 days."""
    processing_max_runtime_seconds: int = Field(default=14400, ge=60, le=432_000)
    """Of the prepare, gather and gate jobs each; the service's own limit is 5 days."""
    max_parallel_steps: int | None = Field(default=None, ge=1, le=200)
    """Steps that one execution runs at a time; without it the service's own default holds."""
    retry_attempts: int = Field(default=5, ge=0, le=20)
    """How often a throttled or failed call of the service is tried again; 0 leaves that to it."""
    capacity_wait_minutes: int = Field(default=240, ge=0, le=14400)
    """How long a job keeps asking for an instance that AWS has none of, or that the account's quota
    forbids just now; 0 fails at once."""
    checkpoint_seconds: int = Field(default=300, ge=10, le=86400)
    """Of a spot arm: at most so much training is lost with a machine."""


class Registry(Table):
    """How the winner is registered."""

    group: (
        Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9](?:-*[a-zA-Z0-9]){0,62}$")] | None
    ) = None
    """Model package group; the workload's name when it is not given."""
    approval: Approval = "PendingManualApproval"


class Cache(Table):
    """How long a finished step may stand in for the same step of a later execution."""

    enabled: bool = True
    expire_after: Annotated[
        str, StringConstraints(pattern=r"^P(\d+[YMWD](T\d+[HM])?|T\d+[HM])$")
    ] = "P30D"
    """An ISO 8601 duration such as P30D, P1DT12H or PT6H."""


class CompileCache(Table):
    """Whether a job starts from what an earlier one of its arm compiled."""

    enabled: bool = True
    max_megabytes: int = Field(default=1024, ge=1, le=100_000)
    """Of an arm's archives together; a larger one is neither kept nor loaded."""


class Workload(Table):
    """One file `workloads/NAME.toml`."""

    name: Name
    description: Text
    seeds: list[Seed] = Field(min_length=1)
    """The replicates of every arm. The first is the one whose model is released."""
    data: Data
    model: Model | None = None
    recipe: Recipe | None = None
    program: Program | None = None
    """Without one the built-in program trains, and needs `[model]` and `[recipe]`."""
    arms: dict[Name, Arm] = Field(default={})
    champion: Champion | None = None
    """Takes the place of arms: the new model is compared with the last registered one."""
    gate: Gate
    compute: Compute = Compute()
    registry: Registry = Registry()
    cache: Cache = Cache()
    compile_cache: CompileCache = CompileCache()
    schedule: Schedule | None = None
    new_data: NewData | None = None
    _left_out: tuple[str, ...] = PrivateAttr(default=())

    @property
    def left_out(self) -> tuple[str, ...]:
        """Arms that the file declares and this workload goes without."""
        return self._left_out

    def with_arms(self, arms: Mapping[str, Arm]) -> Workload:
        """The workload with these of its arms. `subset.select_arms` checks what makes sense."""
        chosen = self.model_copy(update={"arms": dict(arms)})
        chosen._left_out = tuple(name for name in self.arms if name not in arms)
        return chosen

    @property
    def kind(self) -> Kind:
        """What kind of workload this is, with the tables that make it that."""
        return kind_of(self)

    @property
    def trained_arms(self) -> dict[str, Arm]:
        """What is trained: the arms, or the one that challenges the champion."""
        kind = self.kind
        if isinstance(kind, Succession):
            return {CHALLENGER: kind.champion.challenger(kind.program)}
        return self.arms

    @property
    def candidates(self) -> dict[str, Arm]:
        """The arms that are compared with the baseline, in the order they were declared."""
        return {name: arm for name, arm in self.arms.items() if name != BASELINE}

    @property
    def model_package_group(self) -> str:
        return self.registry.group or self.name

    def max_wait_seconds(self, arm: Arm) -> int:
        """How long a job of a spot arm may take in all: twice its runtime, if nothing is said."""
        return arm.max_wait_seconds or min(
            2 * self.compute.max_runtime_seconds, LONGEST_JOB_SECONDS
        )

    @model_validator(mode="after")
    def _tables_make_one_kind(self) -> Self:
        kind_of(self)
        return self

    @model_validator(mode="after")
    def _waits_belong_to_spot_arms(self) -> Self:
        runtime = self.compute.max_runtime_seconds
        scheduled = self.schedule.parameters.get(MAX_RUNTIME) if self.schedule else None
        for name, arm in self.arms.items():
            if arm.spot and isinstance(scheduled, int) and scheduled > self.max_wait_seconds(arm):
                raise ValueError(
                    f"schedule.parameters.{MAX_RUNTIME} is {scheduled}, allowed: the wait of the "
                    f"spot arm {name} ({self.max_wait_seconds(arm)}) or less"
                )
            if arm.max_wait_seconds is None:
                continue
            key = f"arms.{name}.max_wait_seconds"
            if not arm.spot:
                raise ValueError(f"{key} is {arm.max_wait_seconds}, allowed: only with spot = true")
            if arm.max_wait_seconds < runtime:
                raise ValueError(
                    f"{key} is {arm.max_wait_seconds}, allowed: compute.max_runtime_seconds "
                    f"({runtime}) or more, since the wait includes the run"
                )
        return self

    @model_validator(mode="after")
    def _seeds_differ(self) -> Self:
        repeated = sorted({seed for seed in self.seeds if self.seeds.count(seed) > 1})
        if repeated:
            raise ValueError(f"seeds holds {repeated[0]} more than once, allowed: distinct seeds")
        return self

    @model_validator(mode="after")
    def _arms_can_be_compared(self) -> Self:
        if self.champion is not None:
            return self
        names = ", ".join(self.arms) or "no arm at all"
        if BASELINE not in self.arms:
            raise ValueError(
                f"arms holds {names}, allowed: a table [arms.{BASELINE}] "
                "and one or more candidates beside it"
            )
        if self.arms[BASELINE].compiler != "eager":
            raise ValueError(
                f"arms.{BASELINE}.compiler is {self.arms[BASELINE].compiler!r}, allowed: 'eager', "
                "since candidates are compared with training without a compiler"
            )
        if not self.candidates:
            raise ValueError(
                f"arms holds only {BASELINE}, allowed: one or more candidates beside it"
            )
        if NO_ARM in self.arms:
            raise ValueError(
                f"arms.{NO_ARM} is not allowed: "
                f"{NO_ARM!r} is how a verdict says that no arm is sound"
            )
        return self

    @model_validator(mode="after")
    def _slices_are_carried_by_the_data(self) -> Self:
        if self.program is not None:  # whose evidence may have any column
            return self
        carried = self.data.slice_columns
        for index, part in enumerate(self.gate.slices):
            if part.column not in carried:
                there = ", ".join(repr(name) for name in carried) or "none"
                raise ValueError(
                    f"gate.slices[{index}].column is {part.column!r}, allowed: a column that "
                    f"data.slices names (now: {there}), since only those reach the evidence"
                )
        return self

    @model_validator(mode="after")
    def _experiment_fits_one_execution(self) -> Self:
        arms, seeds = len(self.trained_arms), len(self.seeds)
        jobs = arms * seeds
        if jobs > LARGEST_EXPERIMENT:
            raise ValueError(
                f"arms x seeds is {arms} x {seeds} = {jobs} training jobs, "
                f"allowed: {LARGEST_EXPERIMENT} at most in one execution"
            )
        return self

    # The last of all: it is given what the checks above have passed.
    @model_validator(mode="wrap")
    @classmethod
    def _what_arms_leave_out_is_settled(
        cls, value: Any, check: ModelWrapValidatorHandler[Self]
    ) -> Self:
        workload = check(value)
        if not workload.arms:
            return workload
        model, data = workload.model, workload.data
        arms = settled_arms(
            workload.arms,
            baseline=BASELINE,
            built_in=workload.program is None,
            model_id=model.id if isinstance(model, HubModel) else None,
            instance_type=workload.compute.instance_type,
            sequence_length=(
                data.sequence_length if isinstance(data, TextClassificationData) else None
            ),
        )
        return workload.model_copy(update={"arms": arms})
