"""What must hold within a record of padding that a job wrote. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from compilegate.job.evidence import PaddingRecord
from compilegate.job.names import PADDINGS

MOST_LENGTHS = 1000
"""In any list: steps, buckets and bins of the histogram are for people to read."""
MOST_POSITIONS = 10**16
"""An epoch computes so many at most: more can only be damage."""
MOST_LENGTH = 10**6
"""A document has so many positions at most."""


def padding_problems(record: PaddingRecord) -> Iterator[str]:
    """What is wrong with it, each as `KEY is FOUND, expected ...`."""
    if record.padding not in PADDINGS:
        allowed = ", ".join(map(repr, PADDINGS))
        yield f"padding is {record.padding[:60]!r}, expected one of {allowed}"
        return
    for key in ("lengths", "bucket_lengths", "histogram_upto"):
        found: tuple[int, ...] = getattr(record, key)
        if not _is_ascending(found) or not (found or key == "lengths"):
            yield (
                f"{key} is {str(found)[:60]}, expected ascending lengths from 1 to {MOST_LENGTH}, "
                f"{MOST_LENGTHS} at most"
            )
            return
    if bool(record.lengths) == (record.padding == "longest"):
        yield f"lengths has {len(record.lengths)} lengths with padding {record.padding!r}"
    bins, counts = len(record.histogram_upto), len(record.histogram_documents)
    if bins != counts:
        yield f"histogram_documents has {counts} counts, expected one for each of {bins} bins"
        return
    if max(record.histogram_documents) > MOST_POSITIONS:
        yield f"histogram_documents has a count above {MOST_POSITIONS:.0e}"
    positions = record.positions
    if not max(positions.buckets, positions.longest) <= positions.max <= MOST_POSITIONS:
        yield (
            f"positions has {str(positions.max)[:60]} for max, expected {MOST_POSITIONS:.0e} at "
            "most, and no fewer than for the other ways of padding"
        )
    if not 0 < record.tokens <= min(positions.max, positions.buckets, positions.longest):
        yield (
            f"tokens is {str(record.tokens)[:60]}, expected one or more, and no more than "
            "positions has for any way of padding"
        )


def _is_ascending(lengths: tuple[int, ...]) -> bool:
    edges = (0, *lengths, MOST_LENGTH + 1)
    return len(lengths) <= MOST_LENGTHS and all(one < other for one, other in pairwise(edges))
