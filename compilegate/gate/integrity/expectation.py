"""What the experiment expects of one replicate, against which its evidence is checked."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compilegate.evidence import Examples, examples_digest
from compilegate.evidence.rows import same_column
from compilegate.gate.quality.metrics import MetricValues
from compilegate.gate.reasons import Subject
from compilegate.gate.settings import ArmDeclaration, GateSettings

TextArray = npt.NDArray[np.str_]


class KnownRows:
    """Digests and ids of the rows that were looked at last."""

    def __init__(self) -> None:
        self._digest: tuple[Examples, str] | None = None
        self._repeated: tuple[TextArray, int | None] | None = None

    def digest_of(self, examples: Examples) -> str:
        """As `compilegate.job.evidence.examples_digest`."""
        if self._digest is None or not _same_rows(self._digest[0], examples):
            self._digest = (examples, examples_digest(examples))
        return self._digest[1]

    def repeated_ids(self, ids: TextArray) -> int | None:
        """How many of the ids repeat another one; None where they are no valid text."""
        if self._repeated is None or not same_column(self._repeated[0], ids):
            self._repeated = (ids, _repeated(ids))
        return self._repeated[1]


def _same_rows(one: Examples, other: Examples) -> bool:
    return (
        same_column(one.ids, other.ids)
        and same_column(one.labels, other.labels)
        and same_column(one.targets, other.targets)
        and same_column(one.inputs, other.inputs)
    )


def _repeated(ids: TextArray) -> int | None:
    texts = ids.tolist()
    try:
        "".join(texts).encode()
    except ValueError:  # code points that are no characters, or halves of a surrogate pair
        return None
    return len(texts) - len(set(texts))  # far faster than sorting strings


@dataclass(frozen=True)
class Expectation:
    """What the experiment expects of one replicate."""

    about: Subject
    arm: str
    origins: tuple[str, ...]
    """How its evidence may have come about."""
    declaration: ArmDeclaration | None
    """None where the training program's recipe is its own affair."""
    settings: GateSettings
    job: str | None
    """The training job whose evidence this must be; None when any job will do."""
    lost: bool = False
    """Whether its job left no model by the machine's doing."""
    known: KnownRows = field(default_factory=KnownRows)
    """What other replicates' rows have shown already."""
    values: MetricValues = field(default_factory=MetricValues)
