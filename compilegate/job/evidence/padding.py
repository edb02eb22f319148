"""What the evidence holds of padding: how long documents are, and what filling them up costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple


@dataclass(frozen=True)
class PaddedPositions:
    """Positions that one epoch computes, by the way its documents are padded."""

    max: int
    buckets: int
    longest: int


@dataclass(frozen=True)
class PaddingRecord:
    """How documents of different lengths were padded, and what that costs in the first epoch.

    A position is one document's place for a token, computed whether a token stands there or not.
    """

    padding: str
    """One of ``max``, ``buckets``, ``longest``: all documents to one length, those of a step to one
    of a few, or to the longest of them."""
    lengths: Tuple[int, ...]
    """The lengths that steps may have, ascending: a compiler of static shapes compiles each once.
    None with ``longest``."""
    bucket_lengths: Tuple[int, ...]
    """The lengths that ``buckets`` has, or would have."""
    tokens: int
    """Positions of the epoch that are no padding."""
    positions: PaddedPositions
    """Positions of the epoch, padded in each of the three ways."""
    histogram_upto: Tuple[int, ...]
    """The greatest length in each bin of the training documents' lengths, ascending; the last is
    the data set's sequence length."""
    histogram_documents: Tuple[int, ...]
    """How many documents are in each bin."""

    @property
    def computed(self) -> int:
        """Positions of the epoch as it was trained."""
        return int(getattr(self.positions, self.padding))

    @property
    def share(self) -> float:
        """The share of computed positions that are padding."""
        return 1 - self.tokens / self.computed

    @property
    def saved_by_buckets(self) -> float:
        """The share of computed positions that ``buckets`` would not compute; may be negative."""
        return 1 - self.positions.buckets / self.computed
