"""The file `workloads/NAME.toml` as a whole: its tables, and what must hold among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import (
    Field,
)

from compilegate.gate.settings import Seed
from compilegate.workload.declaration.advice import Advice
from compilegate.workload.declaration.arms import (
    ArmTable,
)
from compilegate.workload.declaration.compute import Cache, CompileCache, Compute
from compilegate.workload.declaration.data import (
    Data,
)
from compilegate.workload.declaration.gate import Gate, Posture
from compilegate.workload.declaration.model import Model, Recipe
from compilegate.workload.declaration.program import (
    Program,
)
from compilegate.workload.declaration.schedule import Budget, NewData, Schedule
from compilegate.workload.declaration.serving import (
    Name,
    Registry,
    Serving,
)
from compilegate.workload.declaration.values import (
    Table,
    Text,
    distinct,
    passing,
)


class WorkloadFile(Table):
    """The file `workloads/NAME.toml`."""

    name: Name
    """The file's name without its ending: lower-case letters, digits and single dashes."""
    description: Text
    """One line of description, shown on the report."""
    seeds: Annotated[list[Seed], passing(distinct)] = Field(min_length=1)
    """The replicates of every arm. The first is the one whose model is released."""
    data: Data
    """The source of the examples."""
    model: Model | None = None
    """What the built-in program trains."""
    recipe: Recipe | None = None
    program: Program | None = None
    """Without one the built-in program trains, and needs `[model]` and `[recipe]`."""
    arms: Mapping[Name, ArmTable] = Field(default={})
    """Ways to train: the table `baseline`, and candidates that are compared with it, if any."""
    gate: Gate
    compute: Compute = Compute()
    registry: Registry = Registry()
    cache: Cache = Cache()
    compile_cache: CompileCache = CompileCache()
    schedule: Schedule | None = None
    new_data: NewData | None = None
    advice: Advice = Advice()
    budget: Budget | None = None
    posture: Posture | None = None
    serving: Serving | None = None
