"""What is left to say at the end: what was decided and why, and what it saves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compilegate.gate.verdict import CandidateCost, CostFigures, Verdict
from compilegate.job.names import NO_ARM
from compilegate.report import cost, formats


def decided(verdict: Verdict, models: Sequence[str]) -> str:
    """The decision with its reason, and the registered models: `GROUP/VERSION, APPROVAL`."""
    registered = f" Registered: {'; '.join(models)}." if models else ""
    return f"{verdict.decision.sentence}{registered}"


def saves(verdict: Verdict) -> str:
    """What the decision saves of each retraining; or why nothing, and what would settle it."""
    arm, figures = verdict.decision.arm, verdict.cost
    if arm == NO_ARM or figures is None:
        return "nothing: no model is released"
    if not verdict.candidates:
        return "nothing: the baseline is alone"
    of_arm = {each.arm: each for each in figures.candidates}
    if arm in of_arm:
        return _of_candidate(of_arm[arm], figures, verdict.baseline.arm)
    return "; ".join(["nothing: the baseline is released", *_to_settle(of_arm.values())])


def _of_candidate(candidate: CandidateCost, figures: CostFigures, baseline: str) -> str:
    saved = candidate.saved
    if saved.seconds <= 0.0:
        longer = formats.seconds(-saved.seconds)
        return f"nothing: each retraining takes {longer} longer, compilation included"
    before = next((each.retraining.seconds for each in figures.arms if each.arm == baseline), 0.0)
    share = f" ({saved.seconds / before:.0%})" if before > 0.0 else ""
    text = f"{cost.amount(saved)} of each retraining{share}, compilation included"
    repaid = candidate.retrainings_to_repay
    if repaid is None:
        return text
    count = "1 retraining repays" if repaid == 1 else f"{repaid:,} retrainings repay"
    return f"{text}; {count} the comparison"


def _to_settle(candidates: Iterable[CandidateCost]) -> list[str]:
    return [
        f"{each.arm} would be settled by {settles}"
        for each in candidates
        if (settles := cost.what_settles_it(each))
    ]
