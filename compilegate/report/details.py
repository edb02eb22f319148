"""Everything that a verdict and its observations hold, as sections of text, lists and tables.

The page folds them and Markdown writes them out; neither knows what is in them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from compilegate.gate.findings import Code, Note, Reason
from compilegate.gate.metrics import unit_of
from compilegate.gate.observations import (
    QUANTILES,
    ArmObservation,
    Observations,
    ReplicateObservation,
)
from compilegate.gate.verdict import (
    ArmCost,
    BaselineVerdict,
    CandidateCost,
    CandidateVerdict,
    CompileState,
    CompileTime,
    CostFigures,
    MemoryJudgement,
    MetricJudgement,
    ParityJudgement,
    RunJudgement,
    SpeedJudgement,
    Verdict,
)
from compilegate.job.evidence import PaddingRecord
from compilegate.report import formats
from compilegate.report.formats import NOTHING
from compilegate.report.remedies import settling
from compilegate.report.summary import gate_sentence, saved

LARGE_SHARE, WORTH_SAYING = 0.3, 0.1
"""How much of what is computed may be padding, and must be saved, before buckets are advised."""
MOST_BINS = 8
"""Rows of a histogram of lengths."""
_MEDIAN = QUANTILES.index(0.5)
_MOST_SHOWN = 10
"""Values of a printed metric."""
_NUMBER = re.compile(r"\d[\d.,e+-]*")
_OF_GPUS = re.compile(r"accelerators?|cuda.*|cudnn.*|gpu.*|.*_gpu")
"""Names of settings that say nothing on a machine without an accelerator."""


@dataclass(frozen=True)
class Heading:
    """Above the blocks that follow."""

    heading: str


@dataclass(frozen=True)
class Point:
    """One item of a list: a reason with its outcome and code, or plain text."""

    text: str
    outcome: str = ""
    code: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under a header; the first column names the row."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Link:
    """A file beside the report."""

    text: str
    target: str


Block = str | Heading | Table | Link | tuple[Point, ...]


@dataclass(frozen=True)
class Section:
    """One thing to look up."""

    title: str
    blocks: tuple[Block, ...]


def sections(verdict: Verdict, observations: Observations) -> list[Section]:
    """All of it; what there is nothing of is left out."""
    noticed = tuple(Point(f"{whose}: {note}") for whose, note in _noticed(observations))
    printed, cost = _printed(observations), verdict.cost
    valid = "valid" if verdict.baseline.sound else "not valid"
    found = [
        *((f"{it.arm}: {it.outcome}", _candidate(it)) for it in verdict.candidates),
        (f"The baseline: {valid}", _baseline(verdict.baseline)),
        ("What it cost, and when that is repaid", _cost(verdict, cost) if cost else []),
        ("What the jobs noticed", [noticed] if noticed else []),
        ("Jobs", [_replicates(observations.replicates), *_ignored(observations)]),
        ("What the jobs printed", [printed] if printed.rows else []),
        ("Lengths of documents, and padding", _padding(observations)),
        ("Arms and where they ran", _arms(observations)),
    ]
    return [Section(title, tuple(filter(None, blocks))) for title, blocks in found if blocks]


def _points(findings: Sequence[Reason | Note]) -> tuple[Point, ...]:
    return tuple(
        Point(it.sentence, str(it.outcome) if isinstance(it, Reason) else "", str(it.code))
        for it in findings
    )


def _measured(rows: Sequence[tuple[str, str]]) -> Table:
    return Table(("What", "Measured"), tuple(rows))


def _candidate(candidate: CandidateVerdict) -> list[Block]:
    blocks: list[Block] = [_points(candidate.reasons)]
    if candidate.notes:
        blocks += [Heading("Also noted, deciding nothing"), _points(candidate.notes)]
    if candidate.parity is not None:
        blocks += _parity(candidate.parity)
    if candidate.metrics:
        blocks += [Heading("Quality"), _metrics(candidate.metrics)]
    if candidate.speed is not None:
        blocks += [Heading("Speed"), _speed(candidate.speed)]
    if candidate.memory is not None:
        blocks += [Heading("Memory"), _memory(candidate.memory)]
    heading = Heading("What differs from the baseline besides the compiler")
    return [*blocks, heading, _confounds(candidate)]


def _parity(parity: ParityJudgement) -> list[Block]:
    rows, worst = [], parity.worst
    if worst is not None and parity.limit is not None:
        error = f"{formats.error_ratio(worst.ratio)}, limit {parity.limit:g} times"
        where = f"{worst.tensor}, step {worst.step}, seed {parity.seed}"
        rows += [("Largest error, against what eager's rounding explains", error), ("Where", where)]
    if parity.median_ratio is not None:
        rows.append(("Typical error (median)", f"{parity.median_ratio:.3g} times"))
    if parity.steps:
        compared = f"{parity.steps} steps, {parity.judged} of {parity.tensors} tensors"
        rows.append(("Compared", f"{compared}, in {parity.precision}"))
    blocks: list[Block] = [Heading(f"Parity: {formats.parity_answer(parity)}")]
    blocks.append(_measured(rows) if rows else parity.sentence)
    if parity.departs:
        blocks.append(parity.departs)
    if parity.repro is not None:
        blocks.append(Link("The script that shows it by itself", parity.repro))
    return blocks


def _metrics(metrics: Sequence[MetricJudgement]) -> Table:
    header = ("Metric", "Baseline", "Candidate", "Difference", "Interval", "Margin", "Examples")
    return Table(
        (*header, "Verdict"),
        tuple(
            (
                formats.metric_name(it.metric) + ("" if it.part is None else f", {it.part}"),
                formats.metric_value(it.metric, it.baseline),
                formats.metric_value(it.metric, it.candidate),
                formats.difference(it),
                formats.bounds(it),
                formats.margin(it),
                formats.count(it.examples),
                str(it.outcome or formats.WATCHED),
            )
            for it in metrics
        ),
    )


def _speed(speed: SpeedJudgement) -> Table:
    interval = speed.speedup
    scope = ", of the steps of one run" if speed.conditional_on_run else ""
    bounds = f"{formats.times(interval.lower)} to {formats.times(interval.upper)}{scope}"
    rates = (speed.candidate_samples_per_second, speed.baseline_samples_per_second)
    rows = [
        ("Speed-up", f"{formats.times(interval.estimate)} ({bounds}): {speed.outcome}"),
        ("Required", required(speed)),
        ("Samples per second", " against ".join(map(formats.rate, rates))),
        *_speed_sources(speed),
        *([] if speed.run is None else _compilation(speed.run)),
        ("Advice", speed.advice),
    ]
    if speed.busy_machine:
        rows.append(("The machine was busy", speed.busy_machine))
    return _measured(rows)


def required(speed: SpeedJudgement) -> str:
    """The one limit that decides, and where it comes from: the declared minimum, or what it takes
    to repay compilation where that is more."""
    value = speed.required_speedup
    if value is not None and value <= speed.min_speedup:
        return f"{formats.times(value)}, as declared"
    limit = "no speed-up is enough" if value is None else formats.times(value)
    if speed.run is None:
        return limit
    comma = "" if value is None else ","
    return (
        f"{limit}{comma} to repay {speed.run.compile_state} compilation within "
        f"{speed.run.repaid_within_steps:,} steps"
    )


def _speed_sources(speed: SpeedJudgement) -> list[tuple[str, str]]:
    paired, jobs = speed.paired, speed.by_jobs
    if paired is None or jobs is None:
        return []
    steps = (paired.candidate_step_seconds, paired.baseline_step_seconds)
    bounds = f"{formats.times(jobs.lower)} to {formats.times(jobs.upper)}"
    return [
        ("Measured by", f"{paired.pairs} pairs of alternating blocks, in {paired.jobs} jobs"),
        (
            "Forward, backward and update alone",
            f"{formats.times(paired.steps_alone)} ({' against '.join(map(formats.seconds, steps))})"
            f"; the rest is {paired.rest_share:.0%} of a step",
        ),
        (
            "By the jobs' own step times",
            f"{formats.times(jobs.estimate)} ({bounds})"
            + (": contradicts it" if speed.disagree else ""),
        ),
    ]


def _compilation(run: RunJudgement) -> list[tuple[str, str]]:
    states = ((run.compile_cold, CompileState.COLD), (run.compile_warm, CompileState.WARM))
    trained = (run.candidate_train_seconds, run.baseline_train_seconds)
    return [
        ("Compilation, mean", ", ".join(_compile_time(time, state) for time, state in states)),
        (
            f"Break-even, counting {run.compile_state} compilation",
            formats.break_even(run.break_even_steps, run.break_even_minutes),
        ),
        (
            "Whole training, compilation included",
            f"{formats.times(run.train_time_ratio)} as fast: "
            f"{' against '.join(map(formats.seconds, trained))}",
        ),
    ]


def _compile_time(time: CompileTime | None, state: CompileState) -> str:
    if time is None:
        return f"{state} not measured"
    first = formats.seconds(time.first_step_seconds)
    whose = ", of the jobs that filled the cache" if time.earlier else ""
    return f"{formats.seconds(time.seconds)} {state} (first step {first}{whose})"


def _memory(judgement: MemoryJudgement) -> str:
    candidate, baseline = map(formats.memory, (judgement.candidate_bytes, judgement.baseline_bytes))
    if judgement.increase is None:
        return f"Candidate {candidate}, baseline {baseline}: {judgement.obstacle}"
    whose = {"device": ", of the device", "process": ", of the process"}
    limit = judgement.max_increase
    allowed = "" if limit is None else f"; at most {limit * 100:+.4g}% is allowed"
    return (
        f"{candidate} against {baseline} ({judgement.increase * 100:+.1f}%)"
        f"{whose.get(judgement.candidate_of or '', '')}{allowed}"
    )


def _confounds(candidate: CandidateVerdict) -> Block:
    if candidate.confounds:
        return Table(
            ("What", "Baseline", "Candidate", "Intended?"),
            tuple(
                (it.name, it.baseline, it.candidate, f"{'yes' if it.intended else 'no'}, {it.why}")
                for it in candidate.confounds
            ),
        )
    if not candidate.metrics:
        return "Nothing that could be seen."
    if any(note.code is Code.PRINTED_ONLY for note in candidate.notes):
        return "Nothing that was declared; what else differed the jobs did not record."
    return "Nothing: the compiler is the only difference."


def _baseline(baseline: BaselineVerdict) -> list[Block]:
    sound = "Its evidence is valid: every job is there, complete and as declared."
    blocks: list[Block] = [sound if baseline.sound else "Its evidence is not valid."]
    if baseline.reasons:
        blocks.append(_points(baseline.reasons))
    if baseline.noise_floor:
        header = ("Metric", "Mean", "Standard deviation over seeds", "Seeds")
        rows = (
            (
                formats.metric_name(floor.metric),
                formats.metric_value(floor.metric, floor.mean),
                unit_of(floor.metric).amount(floor.seed_sd),
                str(floor.seeds),
            )
            for floor in baseline.noise_floor
        )
        blocks.append(Table(header, tuple(rows)))
    return blocks


def _cost(verdict: Verdict, cost: CostFigures) -> list[Block]:
    header = ("Arm", "Training, mean", "A retraining", "Whole job, mean", "Samples per second")
    arms = tuple(_arm_cost(arm, cost) for arm in cost.arms)
    blocks: list[Block] = [gate_sentence(cost)]
    blocks.append(Table((*header, "Samples per dollar", "Dollars an hour"), arms))
    for each in cost.candidates:
        rows = candidate_rows(each, settling(verdict, each.arm))
        blocks += [Heading(each.arm), _measured(rows)]
    return blocks


def _arm_cost(arm: ArmCost, cost: CostFigures) -> tuple[str, ...]:
    # Why a price is unknown stands above the table, where it is the same for all.
    notes = {it.price_note for it in cost.arms if it.usd_per_hour is None}
    price = f"unknown. {arm.price_note}" if len(notes) > 1 else "unknown"
    if arm.usd_per_hour is not None:
        hour = formats.dollars(arm.usd_per_hour)
        price = f"{hour} ({arm.instance_type}, {arm.price_note})"
    per_dollar = arm.samples_per_dollar
    return (
        arm.arm,
        *map(formats.amount, (arm.training, arm.retraining, arm.job)),
        formats.rate(arm.samples_per_second),
        NOTHING if per_dollar is None else f"{per_dollar:,.0f}",
        price,
    )


def candidate_rows(candidate: CandidateCost, ways: Sequence[str] = ()) -> list[tuple[str, str]]:
    """(what, measured): what turning a candidate on costs and saves."""
    repaid, state, runs = (
        candidate.retrainings_to_repay,
        candidate.compile_state,
        candidate.break_even_runs,
    )
    after = "never" if runs is None else f"{runs:,.1f} times the length of these runs"
    if runs is not None and runs <= 1.0:
        after = f"within one: after {runs * 100:.0f}% of a run like these"
    rows = [
        ("Saved by each retraining", saved(candidate.saved)),
        (
            "Retrainings that repay the gate",
            "never" if repaid is None else f"{repaid:,}, counted in {candidate.repaid_in}",
        ),
        ("Break-even, in runs" + (f", counting {state} compilation" if state else ""), after),
    ]
    return rows + ([("To settle what is undecided", "; or ".join(ways))] if ways else [])


def _noticed(observations: Observations) -> list[tuple[str, str]]:
    """(which jobs, what they noticed), each note once: those of seeds differ in numbers alone, and
    the first one stands for all."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for item in observations.replicates:
        for note in item.notes:
            found.setdefault((item.arm, _NUMBER.sub("0", note)), []).append((item.seed, note))
    return [
        (f"{arm}, seed {', '.join(str(seed) for seed, _ in notes)}", notes[0][1])
        for (arm, _), notes in found.items()
    ]


def _replicates(replicates: Sequence[ReplicateObservation]) -> Table:
    names = list(dict.fromkeys(name for item in replicates for name in item.metrics))
    header = (
        *("Arm", "Seed", *map(formats.metric_name, names), "Samples/s", "Steps", "Compilation"),
        *("Recompiled", "Graph breaks", "Median step", "Training", "Memory"),
        "Job or problem",
    )
    rows = (
        (
            item.arm,
            str(item.seed),
            *(formats.metric_value(name, item.metrics.get(name)) for name in names),
            formats.rate(item.samples_per_second),
            formats.count(item.steps),
            _job_compilation(item),
            formats.count(item.recompilations),
            formats.count(item.graph_breaks),
            formats.seconds(item.step_seconds[_MEDIAN] if item.step_seconds else None),
            formats.seconds(item.train_seconds),
            formats.memory(item.peak_memory_bytes),
            item.problem or item.job or NOTHING,
        )
        for item in replicates
    )
    return Table(header, tuple(rows))


def _job_compilation(replicate: ReplicateObservation) -> str:
    if not replicate.graphs:
        return NOTHING
    cache = f" ({replicate.compile_cache})" if replicate.compile_cache else ""
    return f"{formats.seconds(replicate.compile_seconds)}{cache}"


def _ignored(observations: Observations) -> list[str]:
    return [
        f"Compile cache of {item.arm}, seed {item.seed}: {item.cache_ignored}"
        for item in observations.replicates
        if item.cache_ignored
    ]


def _printed(observations: Observations) -> Table:
    """How the values went of what jobs only printed."""
    return Table(
        ("Arm", "Seed", "Metric", "Values, in order"),
        tuple(
            (item.arm, str(item.seed), name, _went(values))
            for item in observations.replicates
            for name, values in item.printed.items()
        ),
    )


def _went(values: Sequence[float]) -> str:
    shown = [f"{value:.5g}" for value in values]
    if len(shown) > _MOST_SHOWN:
        shown = [*shown[: _MOST_SHOWN // 2], "...", *shown[-_MOST_SHOWN // 2 :]]
    return ", ".join(shown)


def _padding(observations: Observations) -> list[Block]:
    padded = [(arm.arm, arm.padding) for arm in observations.arms if arm.padding is not None]
    if not padded:
        return []
    header = ("Arm", "Padding", "Lengths of a step", "Positions of an epoch")
    advice = ((arm, buckets_advised(record)) for arm, record in padded)
    return [
        Table(
            (*header, "Padding among them", "Positions with buckets"),
            tuple((arm, *padding_cells(record)) for arm, record in padded),
        ),
        tuple(Point(f"{arm}: {sentence}") for arm, sentence in advice if sentence),
        Table(("Tokens", "Training documents"), tuple(length_rows(padded[0][1]))),
    ]


def padding_cells(record: PaddingRecord) -> tuple[str, ...]:
    """How an arm's documents were padded, and what that cost."""
    buckets = f"{record.positions.buckets:,} ({-record.saved_by_buckets:+.0%})"
    return (
        record.padding,
        ", ".join(map(str, record.lengths)) or "each its own",
        formats.count(record.computed),
        f"{record.share:.0%}",
        NOTHING if record.padding == "buckets" else buckets,
    )


def length_rows(record: PaddingRecord) -> list[tuple[str, str]]:
    """(lengths, documents): the histogram of lengths in a few rows."""
    bins = len(record.histogram_upto)
    each = -(-bins // MOST_BINS)
    rows, lower = [], 1
    for first in range(0, bins, each):
        upper = record.histogram_upto[min(first + each, bins) - 1]
        documents = sum(record.histogram_documents[first : first + each])
        rows.append((f"{lower} to {upper}", formats.count(documents)))
        lower = upper + 1
    return rows


def buckets_advised(record: PaddingRecord) -> str | None:
    """The advice in one sentence; None where there is nothing to gain."""
    if (
        record.padding == "buckets"
        or record.share < LARGE_SHARE
        or record.saved_by_buckets < WORTH_SAYING
    ):
        return None
    lengths = ", ".join(map(str, record.bucket_lengths))
    shapes = len(record.bucket_lengths)
    graphs = f"{shapes} lengths ({lengths})" if shapes > 1 else f"the one length {lengths}"
    return (
        f"{record.share:.0%} of the positions that a step computes are padding: try "
        f'padding = "buckets", which would compute {record.saved_by_buckets:.0%} fewer, with '
        f"{graphs}."
    )


def _arms(observations: Observations) -> list[Block]:
    arms = observations.arms
    rates = (arm.learning_rate for arm in arms)
    declared = (
        ("compiler", [_compiler(arm) for arm in arms]),
        ("batch size", [arm.batch_size for arm in arms]),
        ("learning rate", [rate and f"{rate:g}" for rate in rates]),
        ("precision", [arm.precision for arm in arms]),
    )
    rows = [(name, *(str(it or NOTHING) for it in values)) for name, values in declared]
    accelerated = any(it.environment.get("accelerator") != "none" for it in arms if it.environment)
    names = {name for arm in arms for name in arm.environment}
    names = {name for name in names if accelerated or not _OF_GPUS.fullmatch(name)}
    rows += [
        (name, *(arm.environment.get(name, NOTHING) for arm in arms)) for name in sorted(names)
    ]
    proofs = [
        Point(f"{arm.arm}, which compiler ran: " + ", ".join(map(" ".join, arm.proof.items())))
        for arm in arms
        if arm.proof
    ]
    return [Table(("", *(arm.arm for arm in arms)), tuple(rows)), tuple(proofs)]


def _compiler(arm: ArmObservation) -> str | None:
    """With its backend where it has several: torch-compile:aot_eager."""
    backend = arm.proof.get("backend")
    if arm.compiler is None or backend in (None, arm.compiler):
        return arm.compiler
    return f"{arm.compiler}:{backend}"
