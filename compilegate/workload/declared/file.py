"""The whole file `workloads/NAME.toml`. What is not declared here is not accepted there."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from compilegate.gate.settings import Seed
from compilegate.job.names import DEFAULT_COMPILE_CACHE_MEGABYTES, MOST_COMPILE_CACHE_MEGABYTES
from compilegate.workload.declared.arm import ArmTable
from compilegate.workload.declared.compute import Compute
from compilegate.workload.declared.data import Data
from compilegate.workload.declared.gate import Gate
from compilegate.workload.declared.known.advice import Advice
from compilegate.workload.declared.known.budget import Budget
from compilegate.workload.declared.model import Model, Recipe
from compilegate.workload.declared.program import Program
from compilegate.workload.declared.release.serving import Serving
from compilegate.workload.declared.starts import NewData, Posture, Schedule
from compilegate.workload.declared.table import Table, Text
from compilegate.workload.parameters import Approval

Name = Annotated[str, StringConstraints(pattern=r"^[a-z](?:-?[a-z0-9])*$", max_length=40)]


class Registry(Table):
    """`[registry]`: how the winner is registered."""

    group: (
        Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9](?:-*[a-zA-Z0-9]){0,62}$")] | None
    ) = None
    """Model package group; the workload's name when it is not given."""
    approval: Approval = "PendingManualApproval"
    """The status of a new model; one that is `Approved` may be deployed by whoever waits for it."""


class Cache(Table):
    """`[cache]`: how long a finished step may stand in for the same step of a later execution."""

    enabled: bool = True
    """False: every step of every execution runs."""
    expire_after: Annotated[
        str, StringConstraints(pattern=r"^P(\d+[YMWD](T\d+[HM])?|T\d+[HM])$")
    ] = "P30D"
    """An ISO 8601 duration such as P30D, P1DT12H or PT6H."""


class CompileCache(Table):
    """`[compile_cache]`: whether a job starts from what an earlier one of its arm compiled."""

    enabled: bool = True
    """False: each job compiles from nothing."""
    max_megabytes: int = Field(
        default=DEFAULT_COMPILE_CACHE_MEGABYTES, ge=1, le=MOST_COMPILE_CACHE_MEGABYTES
    )
    """The limit for an arm's archives together; a larger one is neither kept nor loaded."""


class WorkloadFile(Table):
    """One file `workloads/NAME.toml`, as it is written."""

    name: Name
    """The file's name without its ending: lower-case letters, digits and single dashes."""
    description: Text
    """One line for people; it stands on the report."""
    seeds: list[Seed] = Field(min_length=1)
    """The replicates of every arm. The first is the one whose model is released."""
    data: Data
    """Where the examples come from."""
    model: Model | None = None
    """What the built-in program trains."""
    recipe: Recipe | None = None
    program: Program | None = None
    """Without one the built-in program trains, and needs `[model]` and `[recipe]`."""
    arms: dict[Name, ArmTable] = Field(default={})
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
