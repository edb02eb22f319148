"""What a decision saves in each retraining, and what the comparison cost, in words."""

from __future__ import annotations

from compilegate.gate.findings import counted
from compilegate.gate.verdict import (
    CandidateCost,
    CostFigures,
    Verdict,
)
from compilegate.job.contract import NO_ARM
from compilegate.report import formats
from compilegate.report.remedies import figures_of


def saves(verdict: Verdict) -> str:
    """What the decision saves in each retraining; or why nothing."""
    arm = verdict.decision.arm
    if arm == NO_ARM or verdict.cost is None:
        return "nothing: no model is released"
    if not verdict.candidates:
        return "nothing: the workload has no candidate"
    released = figures_of(verdict, arm)
    return saved(released, verdict) if released else "nothing: the baseline is released"


def saved(candidate: CandidateCost, verdict: Verdict) -> str:
    """What each retraining with a candidate saves, and how many repay the comparison."""
    time, usd, repaid = candidate.saved.seconds, candidate.saved.usd, candidate.retrainings_to_repay
    if time <= 0.0:
        longer = formats.seconds(-time)
        return f"nothing: each retraining takes {longer} longer, compilation included"
    arms = () if verdict.cost is None else verdict.cost.arms
    before = next((it.retraining.seconds for it in arms if it.arm == verdict.baseline.arm), 0.0)
    share = f" ({time / before:.0%})" if before > 0.0 else ""
    text = f"{formats.seconds(time)}{share} of each retraining, compilation included"
    if usd is not None:
        text += f", {formats.dollars(abs(usd))} {'less' if usd >= 0.0 else 'more'}"
    if repaid is None:
        return f"{text}; no number of retrainings repays the comparison"
    return f"{text}; the comparison is repaid after {counted(repaid, 'retraining')}"


def gate_sentence(cost: CostFigures) -> str:
    """What the gate cost."""
    left_out = cost.jobs_not_counted
    at_least = "at least " if left_out else ""
    why = f"; not counted: {counted(left_out, 'job')} without valid evidence" if left_out else ""
    what = "The comparison" if cost.candidates else "Training the additional seeds"
    return (
        f"{what} added {at_least}{formats.amount(cost.gate)} of machine time to that of one "
        f"baseline job, in {counted(cost.jobs_counted, 'job')} altogether{why}."
    )
