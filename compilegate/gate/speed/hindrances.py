"""What held a candidate's steps up, as its jobs counted it. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from compilegate.evidence import Evidence, Hindrance
from compilegate.gate.reasons import Code, Note, clipped
from compilegate.job.evidence.hindrances import (
    BREAKS,
    HINDRANCES,
    LOADER,
    RECOMPILATIONS,
    SHAPES,
    SYNCHRONISATION,
)

_LONGEST = 200
_MOST_WHERE = 3


def about_hindrances(evidences: Sequence[Evidence]) -> list[Note]:
    """A note for each kind, by the first of the arm's jobs that met it; the gravest first."""
    first: dict[str, Hindrance] = {}
    for evidence in evidences:
        for each in evidence.hindrances:
            first.setdefault(each.kind, each)
    return [
        Note(
            Code.SPEED_HINDERED,
            hindrance_told(first[kind]),
            {"count": first[kind].count, "share": first[kind].share},
        )
        for kind in HINDRANCES
        if kind in first
    ]


def hindrance_told(each: Hindrance) -> str:
    """What it was, where, and which rule says more, in a sentence or two."""
    places = ", ".join(clipped(where, _LONGEST) for where in each.where[:_MOST_WHERE])
    at = f" at {places}" if places else ""
    why = f": {clipped(each.reason, _LONGEST)}" if each.reason else ""
    count = f"{each.count:.0f}"
    told = {
        LOADER: f"Its steps wait for data in {each.share or 0:.0%} of their time, which no "
        "compiler shortens",
        SYNCHRONISATION: f"Each step asks {_times(each.count)} for the value of a tensor{at}: a "
        "device waits for its next work there, and XLA ends its graph",
        SHAPES: f"Its first steps had {count} different shapes: a compiler of static shapes "
        "compiles each",
        BREAKS: f"torch left its graph {_times(each.count)}{at}{why}",
        RECOMPILATIONS: f"torch compiled a graph again {_times(each.count)}{at}{why}",
    }[each.kind]
    if not each.rule:
        return f"{told}."
    rule = clipped(each.rule, _LONGEST)
    return f"{told}. Rule {rule} of `compilegate check` says more: docs/rules/{rule}.md."


def _times(count: float) -> str:
    return "once" if count < 1.5 else f"{count:.0f} times"
