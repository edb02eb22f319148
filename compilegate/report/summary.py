"""The summary of a verdict: what every rendering says of it. Pure.

What was decided and registered, what was judged of each candidate, what it cost and saves, and
which execution it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from compilegate.gate.findings import Code, Outcome, Reason, clipped, worst
from compilegate.gate.observations import Observations
from compilegate.gate.verdict import (
    Amount,
    CandidateCost,
    CandidateVerdict,
    CostFigures,
    MetricJudgement,
    Verdict,
)
from compilegate.job.names import NO_ARM, NOTHING_NEW
from compilegate.report import formats
from compilegate.report.remedies import settling

_SHORT_COMMIT = 12
MOST_LINES = 15
MOST_WIDTH = 1_500
"""The width of a line on a terminal: as long as a sentence of the gate can be."""


@dataclass(frozen=True)
class Span:
    """One step of an execution, from its start to its end."""

    name: str
    arm: str | None
    """The arm that it trained; None for any other step."""
    start: float
    """Seconds after the execution's start."""
    seconds: float
    status: str
    cached: bool = False
    failed: bool = False


@dataclass(frozen=True)
class About:
    """What is known of one execution; None where it is not."""

    execution_id: str | None = None
    started: float | None = None
    """Seconds since the epoch."""
    seconds: float | None = None
    """From its start to its end."""
    data: str | None = None
    """Where the data is, under a name that holds a digest of it."""
    commit: str | None = None
    """The project's, when it was started."""
    changed: bool = False
    """Whether the project had changes that were not committed."""
    command: str | None = None
    """What starts the same again."""
    spans: tuple[Span, ...] = ()
    expected: tuple[tuple[str, str], ...] = ()
    """(arm, what advice expected of it beside what was measured)."""
    models: tuple[str, ...] = ()
    """The models that it registered: `GROUP/VERSION, APPROVAL`."""


@dataclass(frozen=True)
class Fact:
    """One thing that a page says of its execution."""

    name: str
    value: str
    moment: str | None = None
    """The same as a date for programs (ISO 8601), where it is one."""
    verbatim: bool = False
    """Whether it is to be copied letter by letter."""


def with_data(about: About | None, observations: Observations) -> About:
    """What is known, with the data's digest by its jobs where nobody says where the data is."""
    about = about or About()
    if about.data is None and observations.data is not None:
        return replace(about, data=f"sha256 {observations.data}")
    return about


def facts_of(about: About) -> list[Fact]:
    """What is known, in the order of reading."""
    found = []
    if about.started is not None:
        moment = datetime.fromtimestamp(about.started, UTC)
        shown = f"{moment.day} {moment:%B %Y, %H:%M} UTC"
        found.append(Fact("Started", shown, moment=moment.isoformat(timespec="seconds")))
    if about.seconds is not None:
        found.append(Fact("Took", formats.seconds(about.seconds)))
    if about.execution_id is not None:
        found.append(Fact("Execution", about.execution_id, verbatim=True))
    if about.commit is not None:
        changed = ", with uncommitted changes" if about.changed else ""
        found.append(Fact("Commit", f"{about.commit[:_SHORT_COMMIT]}{changed}", verbatim=True))
    if about.data is not None:
        found.append(Fact("Data", about.data, verbatim=True))
    return found + [Fact(f"Advice on {arm}", sentence) for arm, sentence in about.expected]


# What was decided.


def registered(verdict: Verdict, models: Sequence[str] = ()) -> tuple[str, str]:
    """(label, which model is registered). The label of a model that nobody is known to have
    registered yet is "To register"."""
    decision = verdict.decision
    model = f"the model of {decision.arm}, seed {decision.seed}"
    if decision.arm == NO_ARM:
        return "Registered", "nothing"
    if decision.registers == NOTHING_NEW:
        return "Registered", f"nothing new: {model}, is identical to the registered one"
    if models:
        return "Registered", f"{'; '.join(models)}: {model}"
    return "To register", model


def decided(verdict: Verdict, models: Sequence[str]) -> str:
    """The decision with its reason, and the registered models."""
    ending = f" Registered: {'; '.join(models)}." if models else ""
    return f"{verdict.decision.sentence}{ending}"


def saves(verdict: Verdict) -> str:
    """What the decision saves of each retraining; or why nothing, and what would settle it."""
    arm, figures = verdict.decision.arm, verdict.cost
    if arm == NO_ARM or figures is None:
        return "nothing: no model is released"
    if not verdict.candidates:
        return "nothing: the baseline is alone"
    released = next((each for each in figures.candidates if each.arm == arm), None)
    if released is not None:
        return _saved_by(released, figures, verdict.baseline.arm)
    found = ((each.arm, "; or ".join(settling(verdict, each.arm))) for each in figures.candidates)
    open_ones = [f"{arm} would be settled by {ways}" for arm, ways in found if ways]
    return "; ".join(["nothing: the baseline is released", *open_ones])


def _saved_by(candidate: CandidateCost, figures: CostFigures, baseline: str) -> str:
    amount, repaid = candidate.saved, candidate.retrainings_to_repay
    if amount.seconds <= 0.0:
        longer = formats.seconds(-amount.seconds)
        return f"nothing: each retraining takes {longer} longer, compilation included"
    before = next((each.retraining.seconds for each in figures.arms if each.arm == baseline), 0.0)
    share = f" ({amount.seconds / before:.0%})" if before > 0.0 else ""
    text = f"{formats.amount(amount)} of each retraining{share}, compilation included"
    count = "1 retraining repays" if repaid == 1 else f"{repaid or 0:,} retrainings repay"
    return text if repaid is None else f"{text}; {count} the comparison"


def saved(value: Amount) -> str:
    """What a retraining saves; or what it costs more."""
    time = (
        formats.seconds(value.seconds)
        if value.seconds > 0.0
        else f"nothing, it takes {formats.seconds(-value.seconds)} longer"
    )
    if value.usd is None:
        return time
    if value.usd < 0.0:
        return f"{time}; it costs {formats.dollars(-value.usd)} more"
    return f"{time}; {formats.dollars(value.usd)}"


def gate_sentence(cost: CostFigures) -> str:
    """What the gate cost; and why, if its dollars are unknown."""
    left_out = cost.jobs_not_counted
    at_least = "at least " if left_out else ""
    jobs = formats.counted(left_out, "job")
    why = f"; {jobs} without valid evidence left out" if left_out else ""
    what = "The comparison" if cost.candidates else "Training more seeds than one"
    dollars = ""
    if cost.gate.usd is None:
        notes = (arm.price_note for arm in cost.arms if arm.usd_per_hour is None)
        dollars = f" Dollars are unknown. {next(notes, '')}".rstrip()
    return (
        f"{what} took {at_least}{formats.amount(cost.gate)} of machine time: "
        f"{formats.counted(cost.jobs_counted, 'job')}, not counting the one that the baseline "
        f"needs anyway{why}.{dollars}"
    )


def summary_lines(verdict: Verdict) -> list[str]:
    """For a terminal or a log: the decision, then each candidate with the reasons that decided it;
    15 lines at most."""
    baseline, lines = verdict.baseline, [verdict.decision.sentence]
    if baseline.reasons:
        found = "may not replace the registered model" if baseline.sound else "not valid"
        lines.append(f"{baseline.arm}: {found}")
        lines += _sentences(baseline.reasons, Outcome.FAIL)
    for candidate in verdict.candidates:
        lines.append(f"{candidate.arm}: {candidate.outcome}")
        lines += _sentences(candidate.reasons, candidate.outcome)
        if ways := settling(verdict, candidate.arm):
            lines.append(f"  To settle it: {'; or '.join(ways)}.")
    if verdict.cost is not None:
        lines.append(gate_sentence(verdict.cost))
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], "... the report has the rest"]
    return [clipped(line, MOST_WIDTH) for line in lines]


def _sentences(reasons: Sequence[Reason], outcome: Outcome) -> list[str]:
    return [f"  {reason.sentence}" for reason in reasons if reason.outcome is outcome]


# At a glance: what was judged of each candidate, and how it came out.

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


_NOTHING = Cell(formats.NOTHING)


def compared(verdict: Verdict) -> list[str]:
    """The metrics that were compared on all examples, in the order declared."""
    found = (item.metric for it in verdict.candidates for item in it.metrics if not item.part)
    return list(dict.fromkeys(found))


def on_all_examples(candidate: CandidateVerdict, metric: str) -> MetricJudgement | None:
    """The judgement of a metric, if it was compared."""
    return next((it for it in candidate.metrics if it.metric == metric and it.part is None), None)


def glance(verdict: Verdict) -> list[Line]:
    """What was judged of the candidates; what none of them has is left out."""
    lines = [
        Line(
            formats.metric_name(name),
            tuple(_metric(on_all_examples(it, name)) for it in verdict.candidates),
        )
        for name in compared(verdict)
    ]
    lines += [
        Line(name, tuple(cell_of(candidate) for candidate in verdict.candidates))
        for name, cell_of in _LINES
    ]
    return [line for line in lines if any(cell != _NOTHING for cell in line.cells)]


def _metric(metric: MetricJudgement | None) -> Cell:
    if metric is None:
        return _NOTHING
    limit = formats.WATCHED if metric.limit is None else f"margin {formats.margin(metric)}"
    detail = f"{formats.bounds(metric)}; {limit}"
    return Cell(formats.difference(metric), detail, metric.outcome)


def _slices(candidate: CandidateVerdict) -> Cell:
    judged = [item.outcome for item in candidate.metrics if item.part and item.outcome]
    if not judged:
        return _NOTHING
    gravest = worst(judged)
    return Cell(f"{judged.count(gravest)} of {len(judged)} {gravest}", "", gravest)


def _parity(candidate: CandidateVerdict) -> Cell:
    parity = candidate.parity
    if parity is None:
        return _NOTHING
    error = ""
    if parity.worst is not None and parity.limit is not None:
        ratio = formats.error_ratio(parity.worst.ratio)
        error = f"{ratio} eager's rounding; limit {parity.limit:g}"
    return Cell(formats.parity_answer(parity), error, formats.parity_outcome(parity))


def _speed(candidate: CandidateVerdict) -> Cell:
    speed = candidate.speed
    if speed is None:
        unmeasured = any(it.code is Code.SPEED_UNMEASURED for it in candidate.reasons)
        return Cell("not measured", "", Outcome.INCONCLUSIVE) if unmeasured else _NOTHING
    interval = speed.speedup
    bounds = f"{formats.times(interval.lower)} to {formats.times(interval.upper)}"
    required = (
        "no speed-up repays compilation"
        if speed.required_speedup is None
        else f"required {formats.times(speed.required_speedup)}"
    )
    return Cell(formats.times(interval.estimate), f"{bounds}; {required}", speed.outcome)


def _break_even(candidate: CandidateVerdict) -> Cell:
    run = None if candidate.speed is None else candidate.speed.run
    if run is None:
        return _NOTHING
    after = formats.break_even(run.break_even_steps, run.break_even_minutes)
    return Cell(after, f"these runs have {run.candidate_steps:,}" if run.break_even_steps else "")


def _memory(candidate: CandidateVerdict) -> Cell:
    memory = candidate.memory
    if memory is None:
        return _NOTHING
    limit = memory.max_increase
    if memory.increase is None:
        return Cell("not measured alike", "", None if limit is None else Outcome.FAIL)
    sizes = [formats.memory(it) for it in (memory.candidate_bytes, memory.baseline_bytes)]
    detail, outcome = " against ".join(sizes), None
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
    grounds = dict.fromkeys(_GROUNDS.get(reason.code.subject, _EVIDENCE) for reason in found)
    return Cell(", ".join(grounds), "", worst(reason.outcome for reason in found))


_LINES: tuple[tuple[str, Callable[[CandidateVerdict], Cell]], ...] = (
    ("Slices", _slices),
    ("Parity", _parity),
    ("Speed-up", _speed),
    ("Break-even", _break_even),
    ("Memory", _memory),
    ("Other grounds", _other),
)
