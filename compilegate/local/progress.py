"""What may start next: the rules of the step graph, retries, and how much runs at once. Pure.

SageMaker does not document what happens to the rest of a pipeline once a step has failed. Here:

- A failed or stopped step is *handled* when a step that may still run waits for just that outcome
  (Trigger Failed, Stopped or Any). The execution continues and ends CompletedWithFailures.
- After an unhandled failure, or a Fail step, no further step starts; the steps that are running
  end in their own time, so that their results are in the cache for the next execution.
- A step that waits for a step on a branch not taken is not executed either.
- What a step's RetryPolicies name is tried again; SageMaker's own silent retries of service faults
  and throttling have no local counterpart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compilegate.document.graph import StepGraph, most_in_parallel
from compilegate.document.model import Dependency, RetryPolicy
from compilegate.document.step_types import FAIL, TRAINING
from compilegate.execution.result import StepResult
from compilegate.execution.status import UNSUCCESSFUL, ExecutionStatus, StepStatus
from compilegate.local.jobs.attempt import (
    ALGORITHM_ERROR,
    CAPACITY_ERROR,
    CLIENT_ERROR,
    INTERNAL_ERROR,
    SERVICE_FAULT,
)

EXCEPTION_TYPES = (
    SERVICE_FAULT,
    "Step.THROTTLING",
    INTERNAL_ERROR,
    CAPACITY_ERROR,
    "SageMaker.RESOURCE_LIMIT",
    ALGORITHM_ERROR,
    CLIENT_ERROR,
)
"""What a retry policy may name."""
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
    steps: Mapping[str, StepResult]

    def ready(self) -> list[str]:
        return [] if self.failure_is_final() else self._waiting(may_start=True)

    def not_to_be_executed(self) -> list[str]:
        """The waiting steps that can no longer start."""
        return self._waiting(may_start=False)

    def failure_is_final(self) -> bool:
        """Whether some step's failure makes the whole execution fail."""
        return any(
            step.status in UNSUCCESSFUL and not self._handled(name)
            for name, step in self.steps.items()
        )

    def final_status(self) -> ExecutionStatus:
        if self.failure_is_final():
            return ExecutionStatus.FAILED
        if any(step.status in UNSUCCESSFUL for step in self.steps.values()):
            return ExecutionStatus.COMPLETED_WITH_FAILURES
        return ExecutionStatus.SUCCEEDED

    def _waiting(self, *, may_start: bool) -> list[str]:
        waiting = [name for name, each in self.steps.items() if each.status is StepStatus.WAITING]
        return [name for name in waiting if self._may_start(name) is may_start]

    def _may_start(self, name: str) -> bool | None:
        """True once all that the step waits for has ended as it asks, False once some of it has
        ended otherwise, None before."""
        wanted = [self._branch_taken(name), *map(self._satisfied, self.graph.dependencies[name])]
        if False in wanted:
            return False
        return None if None in wanted else True

    def _handled(self, name: str) -> bool:
        if self.graph.steps[name].type == FAIL:
            return False
        return any(
            self.steps[step].status is not StepStatus.NOT_EXECUTED
            and self._satisfied(dependency) is True
            for step, dependency in self.graph.dependents(name)
        )

    def _satisfied(self, dependency: Dependency) -> bool | None:
        """True or False once the upstream step has ended, None before."""
        status = self.steps[dependency.step].status
        return status in _OUTCOMES[dependency.trigger] if status.ended else None

    def _branch_taken(self, name: str) -> bool | None:
        branch = self.graph.steps[name].branch
        if branch is None:
            return True
        condition = self.steps[branch.condition]
        if condition.status is StepStatus.SUCCEEDED:
            return condition.outcome is branch.taken_when
        return False if condition.status.ended else None


def retry_wait(
    policies: Sequence[RetryPolicy],
    exception_type: str,
    failures: Mapping[str, int],
    seconds_since_first_start: float,
) -> float | None:
    """Seconds to wait before a step is tried again; None when it is not.

    `failures` counts its failed attempts by exception type, the one at hand included. The first
    policy that names the exception decides, with attempts counted over the exceptions it names.
    """
    policy = next((p for p in policies if exception_type in p.exception_types), None)
    if policy is None:
        return None
    retries = sum(failures.get(name, 0) for name in set(policy.exception_types)) - 1
    if policy.max_attempts is not None and retries >= policy.max_attempts:
        return None
    wait = policy.interval_seconds * policy.backoff_rate**retries
    if policy.expire_after_minutes is not None:
        if seconds_since_first_start + wait > policy.expire_after_minutes * 60:
            return None
    elif policy.max_attempts is None:
        return None
    return float(wait)


def most_training(graph: StepGraph, wanted: Mapping[str, int], gpus: int, limit: int | None) -> int:
    """How many Training steps can run at one moment; `wanted` are the GPUs of each."""
    training = [name for name, step in graph.steps.items() if step.type == TRAINING]
    at_once = most_in_parallel(graph, training)
    takers = [name for name in training if wanted.get(name)]
    if gpus and takers:
        others = most_in_parallel(graph, [name for name in training if name not in takers])
        at_once = min(at_once, others + gpus // min(wanted[name] for name in takers))
    return at_once if limit is None else min(limit, at_once)
