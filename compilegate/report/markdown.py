"""The report as Markdown: the same facts as the page, with tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from compilegate.gate.findings import Note, Reason
from compilegate.gate.metrics import unit_of
from compilegate.gate.observations import Observations, ReplicateObservation
from compilegate.gate.verdict import (
    BaselineVerdict,
    CandidateVerdict,
    CostFigures,
    MetricJudgement,
    RunJudgement,
    SpeedJudgement,
    Verdict,
)
from compilegate.report import cost, formats
from compilegate.report.about import About, facts_of, with_data
from compilegate.report.glance import Cell, glance
from compilegate.report.glossary import GLOSSARY
from compilegate.report.repayment import break_even_of

_SPECIAL = "\\`*_{}[]<>#|!~&$"


def render_markdown(
    verdict: Verdict, observations: Observations, about: About | None = None
) -> str:
    """The whole report. Everything that comes from outside is escaped."""
    blocks = [
        f"# {_text(verdict.workload)}",
        f"**{_text(verdict.decision.sentence)}**",
        f"Seeds {', '.join(str(seed) for seed in verdict.seeds)}; "
        f"declared confidence {verdict.confidence * 100:g}%.",
    ]
    facts = facts_of(with_data(about, observations))
    if facts:
        blocks.append("\n".join(f"- {fact.name}: {_text(fact.value)}" for fact in facts))
    if observations.left_out:
        names = ", ".join(_text(name) for name in observations.left_out)
        blocks.append(f"Arms left out of this execution and not judged: {names}.")
    if verdict.candidates:
        blocks.append(_glance(verdict))
    for candidate in verdict.candidates:
        blocks += _candidate(candidate)
        blocks += ["### What differs from the baseline besides the compiler"]
        blocks.append(_confounds(candidate))
    blocks += _baseline(verdict.baseline)
    if verdict.cost is not None:
        blocks += _cost(verdict.cost)
    noticed = formats.noticed(observations)
    if noticed:
        lines = (f"- {_text(whose)}: {_text(note)}" for whose, note in noticed)
        blocks += ["## What the jobs noticed", "\n".join(lines)]
    blocks += ["## Replicates", _replicates(observations.replicates)]
    printed = formats.printed(observations)
    if printed:
        rows = (tuple(_text(cell) for cell in row) for row in printed)
        blocks += ["## What the jobs printed", _table(("Arm", "Seed", "Metric", "Values"), rows)]
    blocks += _padding(observations)
    blocks += ["## Arms and where they ran", _arms(observations)]
    blocks += ["## What the words mean"]
    blocks.append("\n".join(f"- **{word}**: {meaning}" for word, meaning in GLOSSARY))
    return "\n\n".join(blocks) + "\n"


def _glance(verdict: Verdict) -> str:
    header = ("", *(_text(candidate.arm) for candidate in verdict.candidates))
    outcomes = [candidate.outcome for candidate in verdict.candidates]
    verdicts = ("**Verdict**", *(f"**{formats.MARKS[it]} {it}**" for it in outcomes))
    lines = ((_text(line.name), *(_cell(cell) for cell in line.cells)) for line in glance(verdict))
    return _table(header, (verdicts, *lines))


def _cell(cell: Cell) -> str:
    mark = "" if cell.outcome is None else f"{formats.MARKS[cell.outcome]} "
    return f"{mark}{_text(cell.value)}" + (f" ({_text(cell.detail)})" if cell.detail else "")


def _candidate(candidate: CandidateVerdict) -> list[str]:
    blocks = [f"## {_text(candidate.arm)}: {candidate.outcome}", _reasons(candidate.reasons)]
    if candidate.notes:
        blocks += ["Also noted, deciding nothing:", _notes(candidate.notes)]
    if candidate.parity is not None:
        blocks += [f"### Parity: {formats.parity_answer(candidate.parity)}"]
        rows = formats.parity_rows(candidate.parity)
        if rows:
            blocks.append(_table(("What", "Measured"), ((what, _text(it)) for what, it in rows)))
        if candidate.parity.repro is not None:
            place = candidate.parity.repro
            blocks.append(f"[The script that shows it by itself]({_target(place)}): {_text(place)}")
    whole = [metric for metric in candidate.metrics if metric.part is None]
    slices = [metric for metric in candidate.metrics if metric.part is not None]
    if whole:
        blocks += ["### Quality", _metrics(whole)]
    if slices:
        blocks += ["### Slices", _metrics(slices)]
    if candidate.speed is not None:
        blocks += ["### Speed", _speed(candidate.speed)]
    if candidate.memory is not None:
        blocks += ["### Memory", _text(formats.peak_memory(candidate.memory))]
    return blocks


def _baseline(baseline: BaselineVerdict) -> list[str]:
    valid = "valid" if baseline.sound else "not valid"
    blocks = [f"## The baseline, {_text(baseline.arm)}: {valid}"]
    if baseline.reasons:
        blocks.append(_reasons(baseline.reasons))
    if baseline.noise_floor:
        blocks.append(
            _table(
                ("Metric", "Mean", "Standard deviation over seeds", "Seeds"),
                (
                    (
                        formats.metric_name(floor.metric),
                        formats.metric_value(floor.metric, floor.mean),
                        unit_of(floor.metric).amount(floor.seed_sd),
                        str(floor.seeds),
                    )
                    for floor in baseline.noise_floor
                ),
            )
        )
    return blocks


def _cost(figures: CostFigures) -> list[str]:
    arms = (
        (_text(arm.arm), *(_text(cell) for cell in cost.arm_cells(arm, figures)))
        for arm in figures.arms
    )
    blocks = [
        "## What it cost, and when that is repaid",
        _text(cost.gate_sentence(figures)),
        _table(("Arm", *cost.ARM_HEADER), arms),
    ]
    for candidate in figures.candidates:
        rows = [(what, _text(measured)) for what, measured in cost.candidate_rows(candidate)]
        blocks.append(_table((_text(candidate.arm), "Measured"), rows))
    return blocks


def _reasons(reasons: Sequence[Reason]) -> str:
    return "\n".join(
        f"- {reason.outcome}: {_text(reason.sentence)} (`{reason.code}`)" for reason in reasons
    )


def _target(path: str) -> str:
    """A path as the target of a link."""
    return quote(path)


def _notes(notes: Sequence[Note]) -> str:
    return "\n".join(f"- {_text(note.sentence)} (`{note.code}`)" for note in notes)


def _metrics(metrics: Sequence[MetricJudgement]) -> str:
    rows = []
    for metric in metrics:
        unit = unit_of(metric.metric)
        rows.append(
            (
                formats.metric_name(metric.metric)
                + ("" if metric.part is None else f", {_text(metric.part)}"),
                formats.metric_value(metric.metric, metric.baseline),
                formats.metric_value(metric.metric, metric.candidate),
                unit.amount(metric.delta.estimate, signed=True),
                f"{unit.number(metric.delta.lower, signed=True)} to "
                f"{unit.number(metric.delta.upper, signed=True)}",
                formats.margin(metric),
                metric.outcome or formats.WATCHED,
            )
        )
    header = ("Metric", "Baseline", "Candidate", "Difference", "Interval", "Margin", "Verdict")
    return _table(header, rows)


def _speed(speed: SpeedJudgement) -> str:
    interval = speed.speedup
    scope = ", of one run" if speed.conditional_on_run else ""
    rows = [
        (
            "Speed-up",
            f"{formats.times(interval.estimate)} ({formats.times(interval.lower)} to "
            f"{formats.times(interval.upper)}{scope}): {speed.outcome}",
        ),
        (
            "Asked for",
            formats.asked_for(speed),
        ),
        (
            "Samples per second",
            f"{formats.rate(speed.candidate_samples_per_second)} against "
            f"{formats.rate(speed.baseline_samples_per_second)}",
        ),
        *formats.speed_sources(speed),
        ("Advice", speed.advice),
    ]
    if speed.run is not None:
        rows[-1:-1] = _compilation(speed, speed.run)
    return _table(("What", "Measured"), rows)


def _compilation(speed: SpeedJudgement, run: RunJudgement) -> list[tuple[str, str]]:
    point = break_even_of(speed)
    return [
        ("Compilation, mean", formats.compilations(run)),
        (
            f"Break-even, counting {run.compile_state} compilation",
            formats.break_even(run.break_even_steps, run.break_even_minutes)
            + ("" if point is None else f" ({point.range})"),
        ),
        (
            "Whole training, compilation included",
            f"{formats.times(run.train_time_ratio)} as fast: "
            f"{formats.seconds(run.candidate_train_seconds)} against "
            f"{formats.seconds(run.baseline_train_seconds)}",
        ),
    ]


def _confounds(candidate: CandidateVerdict) -> str:
    if not candidate.confounds:
        return formats.no_confounds(candidate)
    return _table(
        ("What", "Baseline", "Candidate", "Intended?"),
        (
            (
                _text(item.name),
                _text(item.baseline),
                _text(item.candidate),
                f"{'yes' if item.intended else '**no**'}, {item.why}",
            )
            for item in candidate.confounds
        ),
    )


def _replicates(replicates: Sequence[ReplicateObservation]) -> str:
    names = list(dict.fromkeys(name for item in replicates for name in item.metrics))
    header = (
        "Arm",
        "Seed",
        *(formats.metric_name(name) for name in names),
        "Samples/s",
        "Steps",
        "Compilation",
        "Training",
        "Memory",
        "Job or problem",
    )
    return _table(
        header,
        (
            (
                _text(item.arm),
                str(item.seed),
                *(formats.metric_value(name, item.metrics.get(name)) for name in names),
                formats.rate(item.samples_per_second),
                formats.count(item.steps),
                formats.replicate_compilation(item),
                formats.seconds(item.train_seconds),
                formats.memory(item.peak_memory_bytes),
                _text(item.problem or item.job or formats.NOTHING),
            )
            for item in replicates
        ),
    )


def _padding(observations: Observations) -> list[str]:
    padded = [(arm.arm, arm.padding) for arm in observations.arms if arm.padding is not None]
    if not padded:
        return []
    rows = [(_text(arm), *formats.padding_cells(record)) for arm, record in padded]
    advice = [
        f"- {_text(arm)}: {_text(sentence)}"
        for arm, record in padded
        if (sentence := formats.buckets_advised(record))
    ]
    return [
        "## Lengths of documents, and padding",
        _table(("Arm", *formats.PADDING_HEADER), rows),
        *(["\n".join(advice)] if advice else []),
        _table(("Tokens", "Training documents"), formats.length_rows(padded[0][1])),
    ]


def _arms(observations: Observations) -> str:
    arms = observations.arms
    names = sorted({name for arm in arms for name in arm.environment})
    rows = [
        (what, *(_text(declared[what]) for declared in map(formats.declared, arms)))
        for what in formats.DECLARED
    ]
    rows += [
        (_text(name), *(_text(arm.environment.get(name, formats.NOTHING)) for arm in arms))
        for name in names
    ]
    return _table(("", *(_text(arm.arm) for arm in arms)), rows)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _text(content: str) -> str:
    """Foreign text on one line, with what Markdown or HTML would interpret escaped."""
    flat = " ".join(content.split())
    return "".join(f"\\{character}" if character in _SPECIAL else character for character in flat)
