"""What the experiment expects of one replicate, against which its evidence is checked."""

from __future__ import annotations

from dataclasses import dataclass, field

from compilegate.gate.integrity.known_rows import KnownRows
from compilegate.gate.quality.metrics import MetricValues
from compilegate.gate.settings import ArmDeclaration, GateSettings


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
    known: KnownRows = field(default_factory=KnownRows)
    """What other replicates' rows have shown already."""
    values: MetricValues = field(default_factory=MetricValues)
