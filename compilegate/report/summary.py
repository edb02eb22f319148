"""A verdict in a few lines of plain text, for a terminal or a job's log."""

from __future__ import annotations

from compilegate.gate.findings import Outcome, Reason
from compilegate.gate.verdict import CandidateVerdict, CostFigures, Verdict
from compilegate.report import cost

MOST_LINES = 15
MOST_WIDTH = 300


def summary_lines(verdict: Verdict) -> list[str]:
    """The decision, then each candidate with the reasons that decided it; 15 lines at most."""
    lines = [verdict.decision.sentence]
    if verdict.baseline.reasons:
        found = "may not replace the registered model" if verdict.baseline.sound else "not valid"
        lines.append(f"{verdict.baseline.arm}: {found}")
        lines += _reasons(verdict.baseline.reasons, Outcome.FAIL)
    for candidate in verdict.candidates:
        lines += _candidate(candidate)
        lines += _to_settle(candidate.arm, verdict.cost)
    if verdict.cost is not None:
        lines.append(cost.gate_sentence(verdict.cost))
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], "... the report has the rest"]
    return [_one_line(line) for line in lines]


def _candidate(candidate: CandidateVerdict) -> list[str]:
    return [
        f"{candidate.arm}: {candidate.outcome}",
        *_reasons(candidate.reasons, candidate.outcome),
    ]


def _to_settle(arm: str, figures: CostFigures | None) -> list[str]:
    """What more seeds or examples would cost, where they would settle what is undecided."""
    known = () if figures is None else figures.candidates
    return [
        f"  To settle it: {settles}."
        for item in known
        if item.arm == arm and (settles := cost.what_settles_it(item))
    ]


def _reasons(reasons: tuple[Reason, ...], outcome: Outcome) -> list[str]:
    return [f"  {reason.sentence}" for reason in reasons if reason.outcome is outcome]


def _one_line(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable if len(printable) <= MOST_WIDTH else printable[: MOST_WIDTH - 3] + "..."
