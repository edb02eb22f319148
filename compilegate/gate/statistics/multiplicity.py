"""Several candidates: what each one's confidence must be, so that the choice among them is honest.

A candidate passes when *all* its guarded metrics and its speed pass. That needs no correction for
their number: to pass wrongly, the one that is truly worse must slip through, whatever the others do
(an intersection-union test, Berger 1982). But *any* of several candidates may win, and each is
another chance to be wrong. Holm's procedure (1979) keeps the chance that any false one passes at
the declared level: with m candidates left, each is judged at 1 - (1 - confidence) / m; whenever one
passes, the rest are judged again with one fewer. It needs no independence, and never passes fewer
than Bonferroni's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compilegate.gate.reasons import Code, Note


def holm_confidences(
    candidates: Sequence[str], confidence: float, passes: Callable[[str, float], bool]
) -> dict[str, float]:
    """The confidence at which each candidate is to be judged.

    `passes(candidate, confidence)` must not become true as the confidence rises.
    """
    decided: dict[str, float] = {}
    left = list(candidates)
    while left:
        level = level_for(len(left), confidence)
        passing = [name for name in left if passes(name, level)]
        if not passing:
            return {**decided, **dict.fromkeys(left, level)}
        # All of these pass at this step already, and would at every later, milder one.
        decided.update(dict.fromkeys(passing, level))
        left = [name for name in left if name not in passing]
    return decided


def level_for(count: int, confidence: float) -> float:
    """The confidence of each of `count` candidates that are judged together."""
    return 1.0 - (1.0 - confidence) / count


def about_holm(candidates: int, declared: float, confidence: float) -> list[Note]:
    """What is to be said of bounds at another confidence than the declared one."""
    if candidates < 2:
        return []
    sentence = (
        f"Any of {candidates} candidates may win, so bounds are at {confidence * 100:.4g}% instead "
        f"of {declared * 100:.4g}% (Holm), which keeps the chance that any wrong one passes at the "
        "declared level; that all metrics must pass needs no such correction."
    )
    numbers = {"confidence": confidence, "candidates": candidates}
    return [Note(Code.CONFIDENCE_HOLM, sentence, numbers)]
