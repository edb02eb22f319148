"""The summary of a verdict: what every rendering says of it. Pure.

What was decided and registered, what was judged of each candidate, what it cost and saves, and
which execution it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from compilegate.gate.findings import Code, Outcome, clipped, counted, worst
from compilegate.gate.metrics import unit_of
from compilegate.gate.observations import Observations
from compilegate.gate.verdict import (
    CandidateVerdict,
    MetricJudgement,
    ParityAnswer,
    SpeedJudgement,
    Verdict,
)
from compilegate.job.contract import NO_ARM, NOTHING_NEW
from compilegate.report import formats
from compilegate.report.remedies import baseline_remedies, deciding, figures_of, remedies
from compilegate.report.savings import gate_sentence, saved

_SHORT_COMMIT = 12
MOST_LINES = 15
MOST_WIDTH = 1_500
"""The width of a line on a terminal: as long as a sentence of the gate can be."""


@dataclass(frozen=True)
class About:
    """What is known of one execution; None where it is not."""

    execution_id: str | None = None
    started: float | None = None
    """Seconds since the epoch."""
    seconds: float | None = None
    """Seconds from start to end."""
    data: str | None = None
    """Key of the data, with its digest in the name."""
    commit: str | None = None
    """The project's, when it was started."""
    changed: bool = False
    """Whether the project had changes that were not committed."""
    command: str | None = None
    """What starts the same again."""
    models: tuple[str, ...] = ()
    """The models that it registered: `GROUP/VERSION, APPROVAL`."""


Facts = list[tuple[str, str]]
"""(name, value) of what a page says of its execution."""


def facts_of(about: About) -> Facts:
    """What is known, in the order of reading."""
    started = commit = None
    if about.started is not None:
        moment = datetime.fromtimestamp(about.started, UTC)
        started = f"{moment.day} {moment:%B %Y, %H:%M} UTC"
    if about.commit is not None:
        changed = ", with uncommitted changes" if about.changed else ""
        commit = f"{about.commit[:_SHORT_COMMIT]}{changed}"
    facts = (
        ("Started", started),
        ("Took", None if about.seconds is None else formats.seconds(about.seconds)),
        ("Execution", about.execution_id),
        ("Commit", commit),
        ("Data", about.data),
        ("Run it again", about.command),
    )
    return [(name, value) for name, value in facts if value is not None]


def facts_of_verdict(verdict: Verdict, observations: Observations, about: About | None) -> Facts:
    """The same with seeds and confidence, and with the data's digest by the jobs where nobody says
    where the data is."""
    about = about or About()
    if about.data is None and observations.data is not None:
        about = replace(about, data=f"sha256 {observations.data}")
    seeds = ", ".join(map(str, verdict.seeds))
    return [("Seeds", seeds), ("Confidence", f"{verdict.confidence:.4g}"), *facts_of(about)]


# What was decided.


def registered(verdict: Verdict, models: Sequence[str] = ()) -> tuple[str, str]:
    """(label, which model is registered). The label of a model that nobody is known to have
    registered yet is "To register"."""
    decision = verdict.decision
    model = f"the model of {decision.arm} (seed {decision.seed})"
    if decision.arm == NO_ARM:
        return "Registered", "nothing"
    if decision.registers == NOTHING_NEW:
        return "Registered", f"nothing new: {model} is identical to the registered model"
    if models:
        return "Registered", f"{'; '.join(models)}: {model}"
    return "To register", model


def decided(verdict: Verdict, models: Sequence[str]) -> str:
    """The decision with its reason, and the registered models."""
    ending = f" Registered: {'; '.join(models)}." if models else ""
    return f"{verdict.decision.sentence}{ending}"


# Each arm: how it came out, why, and what to do.


@dataclass(frozen=True)
class ArmSummary:
    """An arm in words."""

    arm: str
    outcome: Outcome
    found: str
    """The outcome in words that follow the arm's name and a colon."""
    reasons: list[str]
    """What decided it, in full sentences."""
    remedies: list[str]
    """The most helpful first; empty where it passed."""
    saves: str = ""
    """What each retraining with it saves, where it passed and that is known."""


def arm_summaries(verdict: Verdict) -> list[ArmSummary]:
    """Every candidate; before them the baseline, where its model may not be released."""
    baseline, found = verdict.baseline, []
    if baseline.reasons:
        reasons = [reason.sentence for reason in baseline.reasons]
        ways = baseline_remedies(baseline)
        problem = baseline_problem(verdict)
        found.append(ArmSummary(baseline.arm, Outcome.FAIL, problem, reasons, ways))
    for candidate in verdict.candidates:
        arm, outcome = candidate.arm, candidate.outcome
        passed = outcome is Outcome.PASS
        reasons = [reason.sentence for reason in deciding(candidate)]
        ways = [] if passed else remedies(verdict, candidate)
        figures = figures_of(verdict, arm) if passed else None
        saves = "" if figures is None else saved(figures, verdict)
        found.append(ArmSummary(arm, outcome, str(outcome), reasons, ways, saves))
    return found


def baseline_problem(verdict: Verdict) -> str:
    """What the reasons against the baseline amount to."""
    sound = verdict.baseline.sound
    return "may not replace the registered model" if sound else "its evidence is not valid"


def summary_lines(verdict: Verdict) -> list[str]:
    """The summary for a terminal or a log: the decision, then each arm with what decided it and
    what to do first; 15 lines at most."""
    lines = [verdict.decision.sentence]
    for each in arm_summaries(verdict):
        lines.append(f"{each.arm}: {each.found}")
        lines += [f"  {line}" for line in (*each.reasons, *each.remedies[:1])]
    if verdict.cost is not None:
        lines.append(gate_sentence(verdict.cost))
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], "The report has the rest."]
    return [clipped(line, MOST_WIDTH) for line in lines]


# What was judged of each candidate, and how it came out.

JUDGED_IN_CELLS = ("quality", "speed", "parity", "memory")
"""Reasons of these subjects stand in cells of their own."""


@dataclass(frozen=True)
class Cell:
    """One thing that was judged, or only measured."""

    value: str
    interval: str = ""
    limit: str = ""
    evidence: str = ""
    """What it was measured on."""
    outcome: Outcome | None = None
    """The outcome; None where nothing was decided."""

    @property
    def bounds(self) -> str:
        """The interval and the limit."""
        return "; ".join(filter(None, (self.interval, self.limit)))

    @property
    def text(self) -> str:
        """All of it."""
        more = "; ".join(filter(None, (self.bounds, self.evidence)))
        return f"{self.value} ({more})" if more else self.value


Line = tuple[str, tuple[Cell, ...]]
"""What was found in one respect: its name, and a cell for each candidate."""
NOT_JUDGED = Cell(formats.NOTHING)


def compared(verdict: Verdict) -> list[str]:
    """The metrics that were compared on all examples, in the order declared."""
    found = (item.metric for it in verdict.candidates for item in it.metrics if not item.part)
    return list(dict.fromkeys(found))


def on_all_examples(candidate: CandidateVerdict, metric: str) -> MetricJudgement | None:
    """The judgement of a metric, if it was compared."""
    return next((it for it in candidate.metrics if it.metric == metric and it.part is None), None)


def summary_table(verdict: Verdict) -> list[Line]:
    """What was judged of the candidates; what none of them has is left out."""
    judged = verdict.candidates
    lines = [
        (formats.metric_name(name), tuple(metric_cell(on_all_examples(it, name)) for it in judged))
        for name in compared(verdict)
    ]
    lines += [(name, tuple(map(cell_of, judged))) for name, cell_of in _LINES]
    return [(name, cells) for name, cells in lines if any(it != NOT_JUDGED for it in cells)]


def metric_cell(metric: MetricJudgement | None) -> Cell:
    """The difference from the baseline, against its margin."""
    if metric is None:
        return NOT_JUDGED
    unit, delta = unit_of(metric.metric), metric.delta
    bounds = (unit.number(it, signed=True) for it in (delta.lower, delta.upper))
    show = partial(formats.metric_value, metric.metric)
    limit = "watched"
    if metric.limit is not None:
        limit = f"margin {unit.number(metric.limit, signed=True)}"
    examples = f" on {counted(metric.examples, 'example')}" if metric.examples else ""
    if metric.constant is not None:
        examples += f"; a constant prediction reaches {show(metric.constant)}"
    return Cell(
        unit.amount(delta.estimate, signed=True),
        " to ".join(bounds),
        limit,
        formats.against(show, metric.candidate, metric.baseline) + examples,
        metric.outcome,
    )


def _slices(candidate: CandidateVerdict) -> Cell:
    judged = [item.outcome for item in candidate.metrics if item.part and item.outcome]
    if not judged:
        return NOT_JUDGED
    gravest = worst(judged)
    return Cell(f"{judged.count(gravest)} of {len(judged)} {gravest}", outcome=gravest)


def parity_cell(candidate: CandidateVerdict) -> Cell:
    """The largest error of the compiled arithmetic, against its limit."""
    parity = candidate.parity
    if parity is None:
        return NOT_JUDGED
    silent, found = parity.answer is ParityAnswer.CANNOT_TELL, parity.worst
    outcome = Outcome.INCONCLUSIVE if silent else Outcome(parity.answer)
    if found is None or parity.limit is None:
        return Cell(parity.answer.replace("_", " "), outcome=outcome)
    limit = f"limit {parity.limit:g} times eager's rounding"
    where = f"in {found.tensor}, step {found.step}, seed {parity.seed}"
    return Cell(formats.error_ratio(found.ratio), "", limit, where, outcome)


def speed_cell(candidate: CandidateVerdict) -> Cell:
    """The speed-up, against the one that is required."""
    speed = candidate.speed
    if speed is None:
        unmeasured = any(it.code is Code.SPEED_UNMEASURED for it in candidate.reasons)
        return Cell("not measured", outcome=Outcome.INCONCLUSIVE) if unmeasured else NOT_JUDGED
    found = speed.speedup
    scope = " (within one run)" if speed.conditional_on_run else ""
    rates = (speed.candidate_samples_per_second, speed.baseline_samples_per_second)
    rated = formats.against(formats.rate, *rates)
    return Cell(
        formats.times(found.estimate),
        f"{formats.bounds(found)}{scope}",
        _required(speed),
        f"{rated} samples/s",
        speed.outcome,
    )


def _required(speed: SpeedJudgement) -> str:
    """The one limit that decides, and where it comes from: the declared minimum, or what it takes
    to repay compilation where that is more."""
    value, run = speed.required_speedup, speed.run
    limit = formats.required(value)
    if run is None or (value is not None and value <= speed.min_speedup):
        return limit
    return (
        f"{limit} to repay {run.compile_state} compilation within {run.repaid_within_steps:,} steps"
    )


def _break_even(candidate: CandidateVerdict) -> Cell:
    run = None if candidate.speed is None else candidate.speed.run
    if run is None:
        return NOT_JUDGED
    steps, minutes = run.break_even_steps, run.break_even_minutes
    if steps is None or minutes is None:
        return Cell("never")
    if steps == 0:
        return Cell("from the first step")
    length = f"these runs have {run.candidate_steps:,} steps"
    return Cell(f"after {steps:,} steps, {formats.seconds(minutes * 60)}", limit=length)


def _memory(candidate: CandidateVerdict) -> Cell:
    memory = candidate.memory
    if memory is None:
        return NOT_JUDGED
    limit, outcome = memory.max_increase, None
    if memory.increase is None:
        outcome = None if limit is None else Outcome.FAIL
        return Cell("not comparable", evidence=memory.obstacle or "", outcome=outcome)
    allowed = ""
    if limit is not None:
        allowed = f"limit {limit * 100:+.4g}%"
        outcome = Outcome.FAIL if memory.increase > limit else Outcome.PASS
    sizes = formats.against(formats.memory, memory.candidate_bytes, memory.baseline_bytes)
    whose = "" if memory.candidate_of is None else f", of the {memory.candidate_of}"
    return Cell(f"{memory.increase * 100:+.1f}%", "", allowed, f"{sizes}{whose}", outcome)


def _other(candidate: CandidateVerdict) -> Cell:
    """The codes of all other reasons."""
    others = (it for it in candidate.reasons if it.code.subject not in JUDGED_IN_CELLS)
    found = [reason for reason in others if reason.outcome is not Outcome.PASS]
    if not found:
        return NOT_JUDGED
    codes = dict.fromkeys(str(reason.code) for reason in found)
    return Cell(", ".join(codes), outcome=worst(reason.outcome for reason in found))


_LINES: tuple[tuple[str, Callable[[CandidateVerdict], Cell]], ...] = (
    ("Slices", _slices),
    ("Parity", parity_cell),
    ("Speed-up", speed_cell),
    ("Break-even", _break_even),
    ("Memory", _memory),
    ("Other reasons", _other),
)
