"""What an execution tells its listener, in the order in which it happens and on one thread.

`at` is when it happened, in seconds since the epoch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from compilegate.execution.status import ExecutionStatus, StepStatus


@dataclass(frozen=True, kw_only=True)
class _Event:
    at: float = field(default_factory=time.time)


@dataclass(frozen=True)
class ExecutionStarted(_Event):
    """The execution is there."""

    execution_id: str
    pipeline_name: str
    reference: str
    """What the target calls it: its id here, its ARN on SageMaker."""
    resumed: bool = False
    """Whether the results of an earlier run of it are kept."""


@dataclass(frozen=True)
class EnvironmentBuilding(_Event):
    """The virtual environment that stands for an image is being built, which can take minutes."""

    image: str
    log: str


@dataclass(frozen=True)
class StepStarted(_Event):
    """An attempt at a step has started; above 1 it is a retry."""

    step: str
    job_name: str | None
    """None for a step that runs no job."""
    attempt: int
    cores: tuple[int, ...] = ()
    """The CPU ids that the job has to itself; empty where they are not known."""
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StepOutput(_Event):
    """One line that a job printed, without its line end."""

    step: str
    line: str


@dataclass(frozen=True)
class StepRetried(_Event):
    """An attempt failed; the next one starts after `wait_seconds`."""

    step: str
    attempt: int
    reason: str
    wait_seconds: float


@dataclass(frozen=True)
class StepEnded(_Event):
    """A step is over, by its own work or with the result of an earlier execution."""

    step: str
    status: StepStatus
    cached_from: str | None
    """The execution whose result it is; None when the step ran itself."""
    seconds: float
    """Wall-clock time of all its attempts."""
    failure: str | None


@dataclass(frozen=True)
class StillRunning(_Event):
    """Nothing has happened for a while, as is normal when jobs run for hours."""

    steps: tuple[str, ...]


@dataclass(frozen=True)
class ExecutionEnded(_Event):
    """Nothing runs any more."""

    execution_id: str
    status: ExecutionStatus
    failure: str | None


Event = (
    ExecutionStarted
    | EnvironmentBuilding
    | StepStarted
    | StepOutput
    | StepRetried
    | StepEnded
    | StillRunning
    | ExecutionEnded
)
