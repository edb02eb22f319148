"""What the experiment expects of one replicate, against which its evidence is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipelines.gate.config import ArmDeclaration, GateSettings
from pipelines.gate.metrics import metric_value
from training.evidence import Examples, examples_digest


@dataclass(frozen=True)
class Expectation:
    """What the experiment expects of one replicate."""

    arm: str
    seed: int
    declaration: ArmDeclaration | None
    """None where the training program's recipe is its own affair."""
    settings: GateSettings
    job: str | None
    """The training job whose evidence this must be; None when any job will do."""
    digest_of: Callable[[Examples], str] = examples_digest
    """What computes the digest of the examples; see KnownDigests."""
    value_of: Callable[[str, Examples], float] = metric_value
    """What computes a metric; see MetricValues."""


class KnownDigests:
    """Digests of examples, computed once for replicates that hold the same rows.

    All replicates of an execution should, and comparing a million ids is far quicker than hashing
    them.
    """

    def __init__(self) -> None:
        self._known: tuple[Examples, str] | None = None

    def of(self, examples: Examples) -> str:
        """As `training.evidence.examples_digest`."""
        if self._known is not None and _same_rows(self._known[0], examples):
            return self._known[1]
        digest = examples_digest(examples)
        self._known = (examples, digest)
        return digest


def _same_rows(one: Examples, other: Examples) -> bool:
    columns = (
        (one.ids, other.ids),
        (one.labels, other.labels),
        (one.targets, other.targets),
    )
    return all(
        a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in columns
    )
