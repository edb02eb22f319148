"""One earlier execution, with the definition and the parameters it had. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.aws.execution_state import ExecutionState, StepState
from pipelines.semantics.definition import Definition, Scalar


@dataclass(frozen=True)
class PastExecution:
    """An execution as it ended, or as far as it is."""

    state: ExecutionState
    definition: Definition
    parameters: Mapping[str, Scalar]

    def step(self, name: str) -> StepState | None:
        """The step of that name, once it has started."""
        return next((step for step in self.state.steps if step.name == name), None)
