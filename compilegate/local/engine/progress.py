"""How far an execution has come, and what may start next: the rules of the step graph. Pure.

SageMaker does not document what happens to the rest of a pipeline once a step has failed. Here:

- A failed or stopped step is *handled* when a step that may still run waits for just that outcome
  (Trigger Failed, Stopped or Any). The execution continues and ends CompletedWithFailures.
- After an unhandled failure, or a Fail step, no further step starts; the steps that are running
  end in their own time, so that their results are in the cache for the next execution.
- A step that waits for a step on a branch not taken is not executed either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compilegate.document.graph import StepGraph
from compilegate.document.model import Dependency
from compilegate.document.step_types import FAIL
from compilegate.execution.status import UNSUCCESSFUL, ExecutionStatus, StepStatus

_OUTCOMES = {
    "Completed": frozenset({StepStatus.SUCCEEDED}),
    "Failed": frozenset({StepStatus.FAILED}),
    "Stopped": frozenset({StepStatus.STOPPED}),
    "Any": frozenset({StepStatus.SUCCEEDED, StepStatus.FAILED, StepStatus.STOPPED}),
}


@dataclass(frozen=True)
class Progress:
    """The state of every step of a graph at one moment."""

    graph: StepGraph
    statuses: Mapping[str, StepStatus]
    outcomes: Mapping[str, bool] = field(default_factory=dict)
    """Which side each Condition step that succeeded has taken."""

    def ready(self) -> list[str]:
        """The steps that may start now, in definition order."""
        if self.failure_is_final():
            return []
        return [
            name
            for name, status in self.statuses.items()
            if status is StepStatus.WAITING
            and self._branch_taken(name) is True
            and all(self._satisfied(d) is True for d in self.graph.dependencies[name])
        ]

    def not_to_be_executed(self) -> list[str]:
        """The waiting steps that can no longer start."""
        return [
            name
            for name, status in self.statuses.items()
            if status is StepStatus.WAITING
            and (
                self._branch_taken(name) is False
                or any(self._satisfied(d) is False for d in self.graph.dependencies[name])
            )
        ]

    def failure_is_final(self) -> bool:
        """Whether some step's failure makes the whole execution fail."""
        return any(
            status in UNSUCCESSFUL and not self._handled(name)
            for name, status in self.statuses.items()
        )

    def final_status(self) -> ExecutionStatus:
        """How the execution ended, once nothing is running or ready."""
        if self.failure_is_final():
            return ExecutionStatus.FAILED
        if any(status in UNSUCCESSFUL for status in self.statuses.values()):
            return ExecutionStatus.COMPLETED_WITH_FAILURES
        return ExecutionStatus.SUCCEEDED

    def _handled(self, name: str) -> bool:
        if self.graph.steps[name].type == FAIL:
            return False
        return any(
            self.statuses[step] is not StepStatus.NOT_EXECUTED
            and self._satisfied(dependency) is True
            for step, dependency in self.graph.dependents(name)
        )

    def _satisfied(self, dependency: Dependency) -> bool | None:
        """True or False once the upstream step has ended, None before."""
        status = self.statuses[dependency.step]
        return status in _OUTCOMES[dependency.trigger] if status.ended else None

    def _branch_taken(self, name: str) -> bool | None:
        branch = self.graph.steps[name].branch
        if branch is None:
            return True
        status = self.statuses[branch.condition]
        if status is StepStatus.SUCCEEDED:
            return self.outcomes[branch.condition] is branch.taken_when
        return False if status.ended else None
