"""`[advice]`: what only people know of a workload, for `compilegate advise`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from compilegate.workload.declared.table import Table, Text

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Bottleneck = Literal["compute", "memory", "launches", "data", "communication"]
Family = Literal["transformer", "vision", "diffusion", "recommender", "trees", "custom"]
Framework = Literal[
    "pytorch", "tensorflow", "jax", "xgboost", "lightgbm", "catboost", "scikit-learn"
]
Shapes = Literal["static", "few", "varying"]


class Advice(Table):
    """`[advice]`: what only people know. Every key may be left out; `compilegate advise` then names
    the question that it would settle. Nothing here changes what is trained."""

    runs_per_week: Annotated[float, Field(ge=0.001, le=10_000, allow_inf_nan=False)] | None = None
    """How often the workload is trained. Left out, the schedule says it, if there is one."""
    hours: Annotated[float, Field(ge=0.001, le=672, allow_inf_nan=False)] | None = None
    """How long one training job of the baseline takes. Left out, finished executions say it."""
    bottleneck: Bottleneck | None = None
    """What takes the largest part of a step's time."""
    data_share: Share | None = None
    """Share of a step that waits for data, from 0 to 1, as a profile measured it."""
    communication_share: Share | None = None
    """Share of a step that waits for other GPUs or instances."""
    launch_share: Share | None = None
    """Share of a step in which the GPU waits for the host to launch kernels."""
    shapes: Shapes | None = None
    """Whether each step has the same shapes, one of a few, or others every time. Left out, the
    padding of the built-in program says it."""
    framework: Framework | None = None
    """Left out, what the program imports says it."""
    family: Family | None = None
    """Left out, the model's name says it."""
    model: Text | None = None
    """The model's name on the hub, to find it among the models that AWS tested."""
    parameters: Annotated[float, Field(gt=0, le=1e14, allow_inf_nan=False)] | None = None
    """How many parameters the model has."""
    epochs: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Epochs of one run, since a benchmark takes one. The built-in program's are known."""
    instance_count: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Machines that one job trains on, where no arm says it."""
    usd_per_hour: Annotated[float, Field(ge=0.001, le=1e6, allow_inf_nan=False)] | None = None
    """What an hour of one instance costs you. Left out, the catalog's price holds."""
    resumes: bool | None = None
    """Whether a job goes on from its checkpoint when its machine was taken away."""
    engineer_hours: Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)] | None = None
    """What a person spends on trying an option; left out, a range is assumed for each."""
    usd_per_engineer_hour: Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)] | None = (
        None
    )
    """What an hour of that person costs; 0 leaves people's time out of the sum."""

    @model_validator(mode="after")
    def _shares_are_parts_of_one_step(self) -> Self:
        total = sum(
            share or 0.0 for share in (self.data_share, self.communication_share, self.launch_share)
        )
        if total > 1 + 1e-9:
            raise ValueError(
                f"data_share, communication_share and launch_share add up to {total:g}, allowed: "
                "1 at most, since they are parts of one step"
            )
        return self
