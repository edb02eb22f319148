"""What an execution tells its listener, in the order it happens and always on one thread."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compilegate.local.engine.progress import ExecutionStatus, StepStatus


@dataclass(frozen=True)
class ExecutionStarted:
    """All checks have passed; `resumed` says whether earlier results are kept."""

    execution_id: str
    pipeline_name: str
    steps: int
    resumed: bool
    folder: Path


@dataclass(frozen=True)
class EnvironmentBuilding:
    """An image's virtual environment is being built; this can take minutes."""

    image: str
    log: Path


@dataclass(frozen=True)
class StepStarted:
    """A job was given its cores (CPU ids); a step without a job has neither name nor cores."""

    step: str
    job_name: str | None
    cores: tuple[int, ...]
    attempt: int


@dataclass(frozen=True)
class StepOutput:
    """One line that a job printed, without its line end."""

    step: str
    line: str


@dataclass(frozen=True)
class StepRetried:
    """An attempt failed; the next one starts after `wait_seconds`."""

    step: str
    attempt: int
    reason: str
    wait_seconds: float


@dataclass(frozen=True)
class StepEnded:
    """A step is over. `seconds` is the wall-clock time of all its attempts."""

    step: str
    status: StepStatus
    cached: bool
    seconds: float
    failure: str | None


@dataclass(frozen=True)
class ExecutionEnded:
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
    | ExecutionEnded
)
