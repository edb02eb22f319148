"""The decision: which arm's model is released.

That any of several candidates may win is allowed for before: see `multiplicity`.
"""

from __future__ import annotations

from collections.abc import Sequence

from compilegate.gate.reasons import Outcome
from compilegate.gate.settings import NO_ARM
from compilegate.gate.verdict import BaselineVerdict, CandidateVerdict, Decision

_IN_WORDS = {
    Outcome.PASS: "passed",
    Outcome.INCONCLUSIVE: "was inconclusive",
    Outcome.FAIL: "failed",
}


def decide(
    baseline: BaselineVerdict, candidates: Sequence[CandidateVerdict], *, first_seed: int
) -> Decision:
    """The passing candidate whose speed-up is proven largest; else a sound baseline; else none."""
    passing = [
        (candidate.speed.speedup.lower, candidate.arm)
        for candidate in candidates
        if candidate.outcome is Outcome.PASS and candidate.speed is not None
    ]
    if passing:
        proven, winner = max(passing, key=lambda pair: pair[0])
        sentence = (
            f"Release {winner}, seed {first_seed}: as good as {baseline.arm} within the declared "
            f"margins, and at least {proven:.2f} times as fast."
        )
        return Decision(winner, first_seed, sentence)
    if baseline.sound:
        sentence = f"Release {baseline.arm}, seed {first_seed}: {_why_none_won(candidates)}."
        return Decision(baseline.arm, first_seed, sentence)
    return Decision(
        NO_ARM,
        first_seed,
        "Release nothing: the baseline's evidence is not sound, so there is no model to fall back "
        "on and nothing to compare with.",
    )


def _why_none_won(candidates: Sequence[CandidateVerdict]) -> str:
    if not candidates:
        return "there is no candidate"
    found = ", ".join(f"{item.arm} {_IN_WORDS[item.outcome]}" for item in candidates)
    return f"no candidate passed ({found})"
