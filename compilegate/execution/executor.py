"""The seam for another target: what the command needs from whatever executes a pipeline.

`LocalExecutor` (compilegate/local) and `SageMakerExecutor` (compilegate/account) implement it;
tests/execution drives both through it. Another target implements these seven methods, adds itself
to `Target`, and lists in the catalog what it can run. `events.follow` gives the events of a target
that sends none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from compilegate.document.model import Scalar
from compilegate.execution.events import Event
from compilegate.execution.result import ExecutionResult
from compilegate.job.contract import (
    OBSERVATIONS_FILE,
    REPORT_FILE,
    REPORT_MARKDOWN_FILE,
    VERDICT_FILE,
)

GATE_FILES = (VERDICT_FILE, OBSERVATIONS_FILE, REPORT_FILE, REPORT_MARKDOWN_FILE)
"""What `fetch_verdict` fetches, the repros beside; only the first must be there."""


class Executor(Protocol):
    """Starts executions at one target, and reports on them.

    A `reference` names one execution, as `start` returns it. Every method raises CompilegateError.
    """

    def start(self, pipeline: str, parameters: Mapping[str, Scalar]) -> str:
        """Check everything that can be checked in advance, and start an execution.

        A target that stores no pipelines is created with the definition that it runs.
        """

    def follow(self, reference: str, listener: Callable[[Event], None]) -> ExecutionResult:
        """Report to the listener until the execution has ended.

        Raises LostError if contact is lost.
        """

    def read(self, reference: str) -> ExecutionResult:
        """The execution as it is now."""

    def stop(self, reference: str) -> None:
        """Request that it and its jobs stop; returns at once."""

    def fetch_verdict(self, result: ExecutionResult) -> bool:
        """Put the gate's files into the result's folder: the verdict, and reports if there are any.

        Returns whether there is a verdict: an execution that failed before the gate has none.
        """

    def models(self, result: ExecutionResult) -> Sequence[str]:
        """The registered models: `GROUP/VERSION, APPROVAL STATUS`."""

    def when_stopped(self, result: ExecutionResult, /) -> str:
        """Why an execution there may be stopped, and how to continue."""
