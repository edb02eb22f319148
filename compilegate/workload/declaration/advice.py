"""`[advice]`: what `advise` cannot read elsewhere."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    Field,
)

from compilegate.workload.declaration.values import (
    Table,
    Text,
)

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
    shapes: Shapes | None = None
    """Whether each step has the same shapes, one of a few, or others every time. Left out, the
    padding of the built-in program says it."""
    framework: Framework | None = None
    """Left out, what the program imports says it."""
    family: Family | None = None
    """Left out, the model's name says it."""
    model: Text | None = None
    """The model's name on the hub, to find it among the models that AWS tested."""
    usd_per_hour: Annotated[float, Field(ge=0.001, le=1e6, allow_inf_nan=False)] | None = None
    """What an hour of one instance costs you. Left out, the catalog's price holds."""
    engineer_hours: Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)] | None = None
    """What a person spends on trying an option, at 100 dollars an hour; 0 leaves it out of the sum.
    Left out, some hours are assumed for each option."""
