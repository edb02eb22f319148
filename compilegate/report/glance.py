"""At a glance: what was judged of each candidate, and how it came out. Pure.

The page and the Markdown begin with it, so that the verdict and its grounds are seen together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compilegate.gate.findings import Code, Outcome, Reason, worst
from compilegate.gate.metrics import unit_of
from compilegate.gate.verdict import CandidateVerdict, MetricJudgement, Verdict
from compilegate.report import formats

JUDGED_IN_CELLS = ("quality", "speed", "parity", "memory")
"""Reasons of these subjects stand in cells of their own."""
_GROUNDS = {
    "arm": "training failed",
    "baseline": "baseline not valid",
    "compiler": "compiler",
    "confound": "confounds",
    "metric": "reported metrics",
    "recipe": "recipe",
    "slice": "slices",
}
_EVIDENCE = "evidence"
"""The ground of every other subject: digests, steps, examples, models."""


@dataclass(frozen=True)
class Cell:
    """One thing that was judged, or only measured."""

    value: str
    detail: str = ""
    outcome: Outcome | None = None
    """None where nothing was decided."""


@dataclass(frozen=True)
class Line:
    """What was found in one respect; a cell for each candidate, in the verdict's order."""

    name: str
    cells: tuple[Cell, ...]


def glance(verdict: Verdict) -> list[Line]:
    """What was judged of the candidates; what none of them has is left out."""
    lines = [
        Line(formats.metric_name(name), tuple(_metric(it, name) for it in verdict.candidates))
        for name in _metrics_of(verdict)
    ]
    lines += [
        Line(name, tuple(cell_of(candidate) for candidate in verdict.candidates))
        for name, cell_of in _LINES
    ]
    return [line for line in lines if any(cell != _NOTHING for cell in line.cells)]


_NOTHING = Cell(formats.NOTHING)


def _metrics_of(verdict: Verdict) -> list[str]:
    """The metrics that were compared, in the order declared."""
    compared = (item.metric for it in verdict.candidates for item in it.metrics if not item.part)
    return list(dict.fromkeys(compared))


def _metric(candidate: CandidateVerdict, name: str) -> Cell:
    found = [item for item in candidate.metrics if item.metric == name and item.part is None]
    return _difference(found[0]) if found else _NOTHING


def _difference(metric: MetricJudgement) -> Cell:
    unit, delta = unit_of(metric.metric), metric.delta
    bounds = f"{unit.number(delta.lower, signed=True)} to {unit.number(delta.upper, signed=True)}"
    asked = formats.WATCHED if metric.limit is None else f"margin {formats.margin(metric)}"
    return Cell(unit.amount(delta.estimate, signed=True), f"{bounds}; {asked}", metric.outcome)


def _slices(candidate: CandidateVerdict) -> Cell:
    judged = [item.outcome for item in candidate.metrics if item.part and item.outcome]
    if not judged:
        return _NOTHING
    gravest = worst(judged)
    return Cell(f"{judged.count(gravest)} of {len(judged)} {gravest}", "", gravest)


def _parity(candidate: CandidateVerdict) -> Cell:
    if candidate.parity is None:
        return _NOTHING
    answer = formats.parity_answer(candidate.parity)
    worst, limit = candidate.parity.worst, candidate.parity.limit
    error = (
        ""
        if worst is None or limit is None
        else f"{formats.error_ratio(worst.ratio)} eager's rounding; limit {limit:g}"
    )
    return Cell(answer, error, formats.parity_outcome(candidate.parity))


def _speed(candidate: CandidateVerdict) -> Cell:
    speed = candidate.speed
    if speed is None:
        unmeasured = any(it.code is Code.SPEED_UNMEASURED for it in candidate.reasons)
        return Cell("not measured", "", Outcome.INCONCLUSIVE) if unmeasured else _NOTHING
    bounds = f"{formats.times(speed.speedup.lower)} to {formats.times(speed.speedup.upper)}"
    asked = (
        "no speed-up repays compilation"
        if speed.required_speedup is None
        else f"required {formats.times(speed.required_speedup)}"
    )
    return Cell(formats.times(speed.speedup.estimate), f"{bounds}; {asked}", speed.outcome)


def _break_even(candidate: CandidateVerdict) -> Cell:
    run = None if candidate.speed is None else candidate.speed.run
    if run is None:
        return _NOTHING
    after = formats.break_even(run.break_even_steps, run.break_even_minutes)
    runs = f"these runs have {run.candidate_steps:,}" if run.break_even_steps else ""
    return Cell(after, runs)


def _memory(candidate: CandidateVerdict) -> Cell:
    memory = candidate.memory
    if memory is None:
        return _NOTHING
    limit = memory.max_increase
    if memory.increase is None:
        return Cell("not measured alike", "", None if limit is None else Outcome.FAIL)
    detail = f"{formats.memory(memory.candidate_bytes)} against "
    detail += formats.memory(memory.baseline_bytes)
    outcome = None
    if limit is not None:
        detail += f"; at most {limit * 100:+.4g}%"
        outcome = Outcome.FAIL if memory.increase > limit else Outcome.PASS
    return Cell(f"{memory.increase * 100:+.1f}%", detail, outcome)


def _other(candidate: CandidateVerdict) -> Cell:
    found = [
        reason
        for reason in candidate.reasons
        if reason.outcome is not Outcome.PASS and reason.code.subject not in JUDGED_IN_CELLS
    ]
    if not found:
        return _NOTHING
    grounds = dict.fromkeys(_ground(reason) for reason in found)
    return Cell(", ".join(grounds), "", worst(reason.outcome for reason in found))


def _ground(reason: Reason) -> str:
    return _GROUNDS.get(reason.code.subject, _EVIDENCE)


_LINES: tuple[tuple[str, Callable[[CandidateVerdict], Cell]], ...] = (
    ("Slices", _slices),
    ("Parity", _parity),
    ("Speed-up", _speed),
    ("Break-even", _break_even),
    ("Memory", _memory),
    ("Other grounds", _other),
)
