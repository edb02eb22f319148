"""What an execution reports to its listener, in order and on one thread.

`at` is the time, in seconds since the epoch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from compilegate.execution.failure import StepFailure
from compilegate.execution.status import ExecutionStatus, StepStatus

_MOST_NAMES = 6


@dataclass(frozen=True, kw_only=True)
class _Event:
    at: float = field(default_factory=time.time)


@dataclass(frozen=True)
class ExecutionStarted(_Event):
    """The execution has started."""

    execution_id: str
    pipeline_name: str
    reference: str
    """The target's name for it: its ID here, its ARN on SageMaker."""
    resumed: bool = False
    """Whether the results of its earlier run are kept."""
    jobs: Mapping[str, StepStatus] = field(default_factory=dict)
    """The steps that run a job, in the definition's order, as they stand; empty if unknown."""
    at_once: int | None = None
    """How many jobs can run at one moment; None if unknown."""


@dataclass(frozen=True)
class EnvironmentBuilding(_Event):
    """An image's virtual environment is being built, which can take minutes."""

    image: str
    log: str


@dataclass(frozen=True)
class PathsChosen(_Event):
    """How jobs find the folders of a container on this machine."""

    own_root: bool
    """Whether each job has a root of its own."""
    sentence: str


@dataclass(frozen=True)
class StepStarted(_Event):
    """An attempt at a step has started; from 2 on it is a retry."""

    step: str
    job_name: str | None
    """None for a step that runs no job."""
    attempt: int
    cores: tuple[int, ...] = ()
    """The IDs of the job's own CPUs; empty if unknown."""
    links: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    """The job's own GPUs, as CUDA_VISIBLE_DEVICES names them; empty where it has none."""


@dataclass(frozen=True)
class StepWaiting(_Event):
    """A job that is ready to start waits for what jobs of other executions hold."""

    step: str
    what: str
    """cores or GPUs."""
    holders: tuple[str, ...]
    """The IDs of these executions."""

    @property
    def sentence(self) -> str:
        """For the person at the terminal."""
        one = len(self.holders) == 1
        holders = f"execution {self.holders[0]}" if one else f"executions {', '.join(self.holders)}"
        return f"waiting for {self.what} that {holders} {'holds' if one else 'hold'}"


@dataclass(frozen=True)
class StepOutput(_Event):
    """One line of a job's output, without the line end."""

    step: str
    line: str


@dataclass(frozen=True)
class StepRetried(_Event):
    """An attempt failed; the next one starts after `wait_seconds`."""

    step: str
    attempt: int
    failure: StepFailure
    wait_seconds: float


@dataclass(frozen=True)
class StepEnded(_Event):
    """A step has ended, by itself or with the result of an earlier execution."""

    step: str
    status: StepStatus
    cached_from: str | None
    """The execution that the result comes from; None if the step ran."""
    seconds: float
    """The wall-clock time of all its attempts."""
    failure: StepFailure | None


@dataclass(frozen=True)
class StopAsked(_Event):
    """A signal asks for the execution's end, and its jobs are given time to end by themselves."""

    signal_name: str
    steps: tuple[str, ...]
    """The steps whose jobs were told to end."""
    grace_seconds: float
    """How long they have; 0 when they are killed at once."""

    @property
    def sentence(self) -> str:
        """For the person at the terminal."""
        names = ", ".join(self.steps[:_MOST_NAMES])
        more = len(self.steps) - _MOST_NAMES
        names += f" and {more} more" if more > 0 else ""
        if not self.grace_seconds:
            return f"{self.signal_name} again: killing {names}"
        how = "Ctrl-C again kills" if self.signal_name == "SIGINT" else "a second one kills"
        return (
            f"{self.signal_name}: waiting up to {self.grace_seconds:g} s for {names} to end; {how} "
            f"{'it' if len(self.steps) == 1 else 'them'} at once"
        )


@dataclass(frozen=True)
class StillRunning(_Event):
    """Nothing has happened for a while, which is normal when jobs run for hours."""

    steps: tuple[str, ...]


@dataclass(frozen=True)
class ExecutionEnded(_Event):
    """The execution has ended."""

    execution_id: str
    status: ExecutionStatus
    failure: str | None


Event = (
    ExecutionStarted
    | EnvironmentBuilding
    | PathsChosen
    | StepStarted
    | StepWaiting
    | StepOutput
    | StepRetried
    | StepEnded
    | StopAsked
    | StillRunning
    | ExecutionEnded
)
