"""What training and processing jobs have in common, seen from the step that runs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from compilegate.local.home.images import Environment
from compilegate.local.jobs.launcher import JobEnd
from compilegate.local.jobs.printed.metrics import MetricDefinition
from compilegate.local.jobs.sandbox import Sandbox

_PYTHON_NAMES = ("python", "python3")


@dataclass(frozen=True)
class JobOutcome:
    """A job that has ended, for its Describe* response."""

    status: str
    """Completed, Failed or Stopped."""
    started: float
    ended: float
    """Seconds since the epoch."""
    failure: str | None
    metrics: Sequence[Mapping[str, Any]] = ()
    timed_out: bool = False


class Job(Protocol):
    """One job, from its empty sandbox to its Describe* response."""

    name: str
    sandbox: Sandbox
    metrics: Sequence[MetricDefinition]
    max_seconds: int
    gpus: int
    """How many it computes with, where this machine has any."""
    processes: int
    """How many of its processes compute side by side: each has work for a core."""
    host: str
    """The name of its instance; of the first one where it has several."""
    rank: int
    """Which of the instances that is, from 0 on."""
    others: Sequence[Job]
    """The same job on its other instances: each is staged and run, none is collected."""

    def stage(self, environment: Environment) -> Sequence[Path]:
        """Fill the sandbox; return the input files. Raises StepError."""

    def feeding(self) -> AbstractContextManager[None]:
        """What this program does for the job while it runs."""

    def argv(self, environment: Environment, cores: int, gpus: int) -> list[str]:
        """The program and its arguments, container paths rewritten."""

    def variables(self, cores: int, gpus: int) -> dict[str, str]:
        """The environment variables beyond those that every job has."""

    def working_directory(self) -> str:
        """Where the program starts, as the job sees it."""

    def source_folder(self) -> Path | None:
        """Where its source lies, if what a requirements.txt or a setup.py there asks for is to be
        installed before it starts."""

    def collect(self, end: JobEnd) -> Iterable[str]:
        """Store the results; returns what is to be told about them. Raises StepError."""

    def message(self) -> str | None:
        """What the job wrote for people about its end, if it did."""

    def recorded_failure(self) -> str | None:
        """Why a job that ended well did not do what it was for, where it says so."""

    def output_uris(self) -> Sequence[str]:
        """Where the results are, once they are stored."""

    def describe(self, outcome: JobOutcome) -> dict[str, Any]:
        """The Describe* response."""


def interpreter_for(program: str, environment: Environment) -> str:
    """`python` and `python3` are the image's interpreter, with or without a folder before them."""
    name = program.rpartition("/")[2]
    return str(environment.python) if name in _PYTHON_NAMES else program


def read_message(path: Path) -> str | None:
    """The text of a file in which a job explains its end; at most 1024 characters."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
    return text[:1024] or None
