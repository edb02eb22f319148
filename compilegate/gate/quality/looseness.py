"""Loose margins: what passes then may be much worse, and who reads one line must know it.

Nobody but the workload's owner can say which margin is too wide, so none of these is refused; those
that cannot be meant are (`settings`).
"""

from __future__ import annotations

from collections.abc import Iterable

from compilegate.gate.judgements import MetricJudgement
from compilegate.gate.quality.units import unit_of
from compilegate.gate.reasons import Code, Note
from compilegate.gate.settings import FRACTIONS, GateSettings

LOOSE_FRACTION = 0.1
"""Ten points of a metric between 0 and 1."""
LOOSE_SHARE = 0.25
"""A quarter of what the baseline reaches."""
LOOSE_CONFIDENCE = 0.9


def about_loose(judged: Iterable[MetricJudgement], settings: GateSettings) -> list[Note]:
    """A note for each margin that lets much pass, and for a low confidence."""
    found = [_about(each) for each in judged if each.part is None and _is_loose(each)]
    if settings.confidence < LOOSE_CONFIDENCE:
        one_in = round(1.0 / (1.0 - settings.confidence))
        told = (
            f"The confidence is {settings.confidence:g}: one in {one_in} of the candidates at the "
            "margin passes."
        )
        found.append(Note(Code.MARGIN_LOOSE, told, {"confidence": settings.confidence}))
    return found


def _is_loose(judged: MetricJudgement) -> bool:
    margin = judged.margin
    if margin is None:
        return False
    if judged.metric in FRACTIONS:
        return margin >= LOOSE_FRACTION
    return margin >= LOOSE_SHARE * abs(judged.baseline)


def _about(judged: MetricJudgement) -> Note:
    margin = judged.margin or 0.0
    amount = unit_of(judged.metric).amount(margin)
    worse = "lower" if judged.direction == "higher" else "higher"
    told = f"{judged.metric} may be {amount} {worse} than the baseline's, {judged.baseline:.4g}."
    return Note(Code.MARGIN_LOOSE, told, {"metric": judged.metric, "margin": margin})
