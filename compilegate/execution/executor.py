"""The seam for another target: what the command asks of whatever executes a pipeline.

`LocalExecutor` (compilegate/local) and `SageMakerExecutor` (compilegate/account) implement it;
tests/execution drives both through it. Another target implements these seven methods, adds itself
to `Target`, and says in the catalog what it can run. `looking.follow` gives the events of a target
that sends none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from compilegate.document.model import Scalar
from compilegate.errors import CompilegateError
from compilegate.execution.events import Event
from compilegate.execution.result import ExecutionResult

VERDICT = "verdict.json"
REPORT = "report.html"
REPORT_MARKDOWN = "report.md"


class LostError(CompilegateError):
    """An execution runs or has run, and nothing more can be learned of it now."""


class Executor(Protocol):
    """Starts executions at one target, and tells what becomes of them.

    A `reference` names one execution there, as `start` returns it. Every method raises a
    CompilegateError for what cannot be done.
    """

    def start(self, pipeline: str, parameters: Mapping[str, Scalar]) -> str:
        """Check everything that can be known before, and start an execution.

        A target that keeps no pipelines of its own is made with the definition that it runs.
        """

    def follow(self, reference: str, listener: Callable[[Event], None]) -> ExecutionResult:
        """Tell the listener what happens, until the execution has ended.

        Raises LostError when that can no longer be seen.
        """

    def read(self, reference: str) -> ExecutionResult:
        """The execution as it is now."""

    def stop(self, reference: str) -> None:
        """Ask for its end, with the jobs that run; returns at once."""

    def fetch_verdict(self, result: ExecutionResult) -> bool:
        """Put the gate's files into the result's folder: VERDICT and, where they are, the reports.

        Returns whether there is a verdict: an execution that failed before the gate has none.
        """

    def models(self, result: ExecutionResult) -> Sequence[str]:
        """What it registered: `GROUP/VERSION, APPROVAL STATUS`."""

    def when_stopped(self, result: ExecutionResult) -> str:
        """Why an execution there is stopped, and how to go on."""
