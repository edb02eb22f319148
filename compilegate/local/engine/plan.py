"""An execution that has passed all checks: what to run, with what, where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compilegate.document.graph import StepGraph
from compilegate.document.model import Scalar
from compilegate.local.engine.cores import CorePool
from compilegate.local.engine.scope import ExecutionFacts
from compilegate.local.home.images import Environment
from compilegate.local.home.journal import Journal
from compilegate.local.home.object_store import ObjectStore


@dataclass(frozen=True)
class ExecutionPlan:
    """Everything that is fixed before the first step starts."""

    facts: ExecutionFacts
    graph: StepGraph
    parameters: Mapping[str, Scalar]
    environments: Mapping[str, Environment]
    """By image URI."""
    home: Path
    journal: Journal
    store: ObjectStore
    cores: CorePool
    cores_per_job: int
    """Physical cores; of a Processing job, the most it gets."""
    max_parallel_steps: int | None
    use_cache: bool
    grace_seconds: float
    resumed: bool
    """Whether an earlier run of this execution has left results."""
