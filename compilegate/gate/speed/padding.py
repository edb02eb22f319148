"""What padding cost, and what another way would save. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from compilegate.evidence import Evidence, PaddingRecord
from compilegate.gate.reasons import Code, Note

LARGE_SHARE = 0.3
"""So much of what is computed may be padding before the report says what to do about it."""
WORTH_SAYING = 0.1
"""Buckets that save less of what is computed are not worth their graphs."""


def about_padding(evidences: Sequence[Evidence]) -> list[Note]:
    """Advice to try buckets, where padding is a large share of an arm's positions and they would
    save a good part of it; by the first of the arm's records that says."""
    record = next((each.padding for each in evidences if each.padding is not None), None)
    sentence = None if record is None else buckets_advised(record)
    if record is None or sentence is None:
        return []
    numbers = {"share": record.share, "saved": record.saved_by_buckets}
    return [Note(Code.PADDING_LARGE, sentence, numbers)]


def buckets_advised(record: PaddingRecord) -> str | None:
    """The advice in one sentence; None where there is nothing to gain."""
    if (
        record.padding == "buckets"
        or record.share < LARGE_SHARE
        or record.saved_by_buckets < WORTH_SAYING
    ):
        return None
    lengths = ", ".join(map(str, record.bucket_lengths))
    shapes = len(record.bucket_lengths)
    graphs = f"{shapes} lengths ({lengths})" if shapes > 1 else f"the one length {lengths}"
    return (
        f"{record.share:.0%} of the positions that a step computes are padding: try "
        f'padding = "buckets", which would compute {record.saved_by_buckets:.0%} fewer, with '
        f"{graphs}."
    )
