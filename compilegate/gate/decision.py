"""The decision: which arm's model is released, or whether the registered one stands.

That any of several candidates may win is allowed for before: see `multiplicity`.
"""

from __future__ import annotations

from collections.abc import Sequence

from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.verdict import BaselineVerdict, CandidateVerdict, Decision
from compilegate.job.names import CHALLENGER_ARM, CHAMPION_ARM, NO_ARM

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
            f"Release {winner}, seed {first_seed}: as good as {baseline.arm} within "
            f"{_margins(candidates, winner)}, and at least {proven:.2f} times as fast"
            f"{_together(candidates, winner)}."
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


def _margins(candidates: Sequence[CandidateVerdict], winner: str) -> str:
    """The margins, and what they let pass where that is much."""
    notes = [note for each in candidates if each.arm == winner for note in each.notes]
    loose = [note.sentence for note in notes if note.code is Code.MARGIN_LOOSE]
    if not loose:
        return "the declared margins"
    told = "; ".join(sentence.rstrip(".") for sentence in loose)
    return f"the declared margins, which are loose ({told})"


def _together(candidates: Sequence[CandidateVerdict], winner: str) -> str:
    """What else makes the winner fast; nothing where it is the compiler alone."""
    codes = {reason.code for each in candidates if each.arm == winner for reason in each.reasons}
    return ", by compiler and machine together" if Code.SPEED_WITH_MACHINE in codes else ""


def decide_between_models(
    challenger: CandidateVerdict, champion: BaselineVerdict, first_seed: int
) -> Decision:
    """The new model, where it is as good; else the registered one, where there is one; else none.

    A registered model stands even if its evaluation is not sound: it was judged before.
    """
    if any(reason.code is Code.CHAMPION_SAME for reason in challenger.reasons):
        sentence = "The registered model stands: the new model is no other."
        return Decision(CHAMPION_ARM, first_seed, sentence)
    if challenger.outcome is Outcome.PASS:
        why = (
            f"as good as the registered model within {_margins([challenger], challenger.arm)}"
            if champion.exists
            else "no model was approved before"
        )
        sentence = f"Register the new model, seed {first_seed}: {why}."
        return Decision(CHALLENGER_ARM, first_seed, sentence)
    if not champion.exists:
        sentence = (
            "Register nothing: the new model's evidence is not sound, and no model was registered "
            "before."
        )
        return Decision(NO_ARM, first_seed, sentence)
    why = (
        "the new model failed"
        if challenger.outcome is Outcome.FAIL
        else "the new model was not shown to be as good"
    )
    return Decision(CHAMPION_ARM, first_seed, f"The registered model stands: {why}.")


def _why_none_won(candidates: Sequence[CandidateVerdict]) -> str:
    if not candidates:
        return "there is no candidate"
    found = ", ".join(f"{item.arm} {_in_words(item)}" for item in candidates)
    return f"no candidate passed ({found})"


def _in_words(candidate: CandidateVerdict) -> str:
    undecided = {each.code for each in candidate.reasons if each.outcome is Outcome.INCONCLUSIVE}
    if candidate.outcome is Outcome.INCONCLUSIVE and undecided == {Code.SPEED_BUSY_MACHINE}:
        return "could not be judged, because the machine was too busy to time it"
    return _IN_WORDS[candidate.outcome]
