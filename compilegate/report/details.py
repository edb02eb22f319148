"""What a verdict and its observations hold beyond the summary, as sections of text, lists and
tables.

The page folds them and Markdown writes them out; neither knows what is in them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compilegate.gate.findings import Code, Note, Reason
from compilegate.gate.metrics import unit_of
from compilegate.gate.observations import QUANTILES, Observations, ReplicateObservation
from compilegate.gate.verdict import (
    ArmCost,
    CandidateVerdict,
    CompileState,
    CompileTime,
    ParityJudgement,
    SpeedJudgement,
    Verdict,
)
from compilegate.report import formats
from compilegate.report.formats import NOTHING
from compilegate.report.savings import gate_sentence, saved
from compilegate.report.summary import baseline_problem, metric_cell, summary_table

_LARGE_SHARE, _WORTH_SAYING = 0.3, 0.1
"""How much of what is computed may be padding, and must be saved, before buckets are advised."""
_MEDIAN = QUANTILES.index(0.5)
_NUMBER = re.compile(r"\d[\d.,e+-]*")
_OF_GPUS = re.compile(r"accelerators?|cuda.*|cudnn.*|gpu.*|.*_gpu")
"""Names of settings that say nothing on a machine without an accelerator."""


@dataclass(frozen=True)
class Point:
    """One item of a list: a reason or a note with its code, or plain text."""

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


Block = str | Table | Link | tuple[Point, ...]
Section = tuple[str, tuple[Block, ...]]
"""A title, and what stands below it."""


def sections(verdict: Verdict, observations: Observations) -> list[Section]:
    """All of it; what there is nothing of is left out."""
    valid = "valid" if verdict.baseline.sound else "not valid"
    found = [
        *_candidates(verdict),
        (f"The baseline: {valid}", _baseline(verdict)),
        ("Cost and savings", _cost(verdict)),
        ("What the jobs noticed", [(*_noticed(observations), *_padding(observations))]),
        ("Jobs", [_jobs(observations.replicates), *_printed(observations)]),
        ("Arms and where they ran", [_arms(observations)]),
    ]
    filled = ((title, tuple(filter(None, blocks))) for title, blocks in found)
    return [(title, blocks) for title, blocks in filled if blocks]


def _points(findings: Sequence[Reason | Note]) -> tuple[Point, ...]:
    return tuple(
        Point(it.sentence, it.outcome if isinstance(it, Reason) else formats.NOTE, it.code)
        for it in findings
    )


# One candidate.


def _candidates(verdict: Verdict) -> Iterator[tuple[str, list[Block]]]:
    lines = summary_table(verdict)
    for index, candidate in enumerate(verdict.candidates):
        rows = [(name, cells[index].text) for name, cells in lines if cells[index].evidence]
        yield f"{candidate.arm}: {candidate.outcome}", _candidate(candidate, rows)


def _candidate(candidate: CandidateVerdict, rows: list[tuple[str, str]]) -> list[Block]:
    """`rows` are what the summary has of it."""
    blocks: list[Block] = [_points((*candidate.reasons, *candidate.notes))]
    for item in candidate.metrics:
        if item.part is not None:
            name = f"{formats.metric_name(item.metric)}, {item.part}"
            rows.append((name, f"{metric_cell(item).text}: {item.outcome or 'watched'}"))
    if candidate.parity is not None:
        rows += _parity(candidate.parity)
    if candidate.speed is not None:
        rows += _speed(candidate.speed)
    if rows:
        blocks.append(Table(("What", "Measured"), tuple(rows)))
    if candidate.parity is not None and candidate.parity.repro is not None:
        blocks.append(Link("The script that reproduces the difference", candidate.parity.repro))
    return [*blocks, _confounds(candidate)]


def _parity(parity: ParityJudgement) -> Iterator[tuple[str, str]]:
    if parity.worst is None:
        yield "Parity", parity.sentence
        return
    if parity.median_ratio is not None:
        yield "Parity, median error", f"{parity.median_ratio:.3g} times eager's rounding"
    compared = f"{parity.steps} steps, {parity.judged} of {parity.tensors} tensors"
    yield "Parity, compared", f"{compared}, in {parity.precision}"
    if parity.departs:
        yield "Parity, first difference", parity.departs


def _speed(speed: SpeedJudgement) -> Iterator[tuple[str, str]]:
    if (paired := speed.paired) is not None:
        yield "Speed measured by", f"{paired.pairs} pairs of alternating blocks of steps"
        steps = (paired.candidate_step_seconds, paired.baseline_step_seconds)
        both = formats.against(formats.seconds, *steps)
        alone = f"{formats.times(paired.steps_alone)} ({both})"
        rest = f"the rest is {paired.rest_share:.0%} of a step"
        yield "Forward, backward and update only", f"{alone}; {rest}"
        if (jobs := speed.by_jobs) is not None:
            by_jobs = f"{formats.times(jobs.estimate)} ({formats.bounds(jobs)})"
            contradicts = ", which contradicts the pairs" if speed.disagree else ""
            yield "Speed-up by the jobs' own step times", by_jobs + contradicts
    if (run := speed.run) is not None:
        states = ((run.compile_cold, CompileState.COLD), (run.compile_warm, CompileState.WARM))
        yield "Compilation, mean", ", ".join(_compile_time(*it) for it in states)
        trained = (run.candidate_train_seconds, run.baseline_train_seconds)
        both = formats.against(formats.seconds, *trained)
        ratio = formats.times(run.train_time_ratio)
        yield "Whole training, compilation included", f"{ratio} as fast: {both}"
    if speed.busy_machine:
        yield "Other load on the machine", speed.busy_machine


def _compile_time(time: CompileTime | None, state: CompileState) -> str:
    if time is None:
        return f"{state} not measured"
    first = formats.seconds(time.first_step_seconds)
    whose = ", in the jobs that filled the cache" if time.earlier else ""
    return f"{formats.seconds(time.seconds)} {state} (first step {first}{whose})"


def _confounds(candidate: CandidateVerdict) -> Block:
    if candidate.confounds:
        rows = (
            (it.name, it.baseline, it.candidate, f"{'yes' if it.intended else 'no'}, {it.why}")
            for it in candidate.confounds
        )
        header = ("Differs from the baseline", "Baseline", "Candidate", "Intended?")
        return Table(header, tuple(rows))
    if not candidate.metrics:
        return ""
    if any(note.code is Code.PRINTED_ONLY for note in candidate.notes):
        return "No declared setting differs from the baseline's; the jobs recorded no others."
    return "The compiler is the only difference from the baseline."


# The baseline, and what it all cost.


def _baseline(verdict: Verdict) -> list[Block]:
    baseline = verdict.baseline
    blocks: list[Block] = ["Every baseline job is present, complete and as declared."]
    if baseline.reasons or not baseline.sound:
        blocks = [f"{baseline.arm}: {baseline_problem(verdict)}.", _points(baseline.reasons)]
    if baseline.noise_floor:
        rows = (
            (
                formats.metric_name(floor.metric),
                formats.metric_value(floor.metric, floor.mean),
                unit_of(floor.metric).amount(floor.seed_sd),
                str(floor.seeds),
            )
            for floor in baseline.noise_floor
        )
        header = ("Metric", "Mean", "Standard deviation over seeds", "Seeds")
        blocks.append(Table(header, tuple(rows)))
    return blocks


def _cost(verdict: Verdict) -> list[Block]:
    if (cost := verdict.cost) is None:
        return []
    header = ("Arm", "Training, mean", "One retraining", "Whole job, mean", "Samples per dollar")
    arms = Table((*header, "Dollars an hour"), tuple(map(_arm_cost, cost.arms)))
    savings = tuple(Point(f"{it.arm} saves {saved(it, verdict)}.") for it in cost.candidates)
    return [gate_sentence(cost), savings, arms]


def _arm_cost(arm: ArmCost) -> tuple[str, ...]:
    price, per_dollar = arm.price_note, arm.samples_per_dollar
    if arm.usd_per_hour is not None:
        price = f"{formats.dollars(arm.usd_per_hour)} ({arm.instance_type}, {arm.price_note})"
    return (
        arm.arm,
        *map(formats.amount, (arm.training, arm.retraining, arm.job)),
        NOTHING if per_dollar is None else f"{per_dollar:,.0f}",
        price,
    )


# The jobs.


def _noticed(observations: Observations) -> tuple[Point, ...]:
    """Each note once: those of seeds differ in numbers alone, and the first one stands for all."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for item in observations.replicates:
        ignored = [f"compile cache: {item.cache_ignored}"] if item.cache_ignored else []
        for note in (*item.notes, *ignored):
            found.setdefault((item.arm, _NUMBER.sub("0", note)), []).append((item.seed, note))
    return tuple(
        Point(f"{arm}, seed {', '.join(str(seed) for seed, _ in notes)}: {notes[0][1]}")
        for (arm, _), notes in found.items()
    )


def _jobs(replicates: Sequence[ReplicateObservation]) -> Table:
    metrics = dict.fromkeys(name for item in replicates for name in item.metrics)
    header = ("Arm", "Seed", *map(formats.metric_name, metrics), *_OF_JOBS)
    rows = (
        (
            item.arm,
            str(item.seed),
            *(formats.metric_value(name, item.metrics.get(name)) for name in metrics),
            *(show(item) for show in _OF_JOBS.values()),
        )
        for item in replicates
    )
    return Table(header, tuple(rows))


def _median_step(job: ReplicateObservation) -> str:
    return formats.seconds(job.step_seconds[_MEDIAN] if job.step_seconds else None)


def _job_compilation(job: ReplicateObservation) -> str:
    cache = f" ({job.compile_cache})" if job.compile_cache else ""
    return f"{formats.seconds(job.compile_seconds)}{cache}" if job.graphs else NOTHING


_OF_JOBS: Mapping[str, Callable[[ReplicateObservation], str]] = {
    "Samples/s": lambda job: formats.rate(job.samples_per_second),
    "Steps": lambda job: formats.count(job.steps),
    "Median step": _median_step,
    "Compilation": _job_compilation,
    "Recompiled": lambda job: formats.count(job.recompilations),
    "Graph breaks": lambda job: formats.count(job.graph_breaks),
    "Training": lambda job: formats.seconds(job.train_seconds),
    "Memory": lambda job: formats.memory(job.peak_memory_bytes),
    "Job or problem": lambda job: job.problem or job.job or NOTHING,
}


def _printed(observations: Observations) -> list[Block]:
    """The values of metrics, of jobs that only printed them: the first and the last five."""
    rows = []
    for item in observations.replicates:
        for name, values in item.printed.items():
            shown = [f"{value:.5g}" for value in values]
            shown = shown if len(shown) <= 10 else [*shown[:5], "...", *shown[-5:]]
            rows.append((item.arm, str(item.seed), name, ", ".join(shown)))
    header = ("Arm", "Seed", "Metric", "Printed values, in order")
    return [Table(header, tuple(rows))] if rows else []


def _padding(observations: Observations) -> Iterator[Point]:
    """Advice to pad to buckets, where that saves much."""
    for arm in observations.arms:
        record = arm.padding
        if record is None or record.padding == "buckets":
            continue
        if record.share >= _LARGE_SHARE and record.saved_by_buckets >= _WORTH_SAYING:
            yield Point(
                f"{arm.arm}: {record.share:.0%} of the {record.computed:,} positions of an epoch "
                f'are padding. `padding = "buckets"` would compute {record.saved_by_buckets:.0%} '
                f"fewer, with steps of {', '.join(map(str, record.bucket_lengths))} positions."
            )


def _arms(observations: Observations) -> Table:
    arms = observations.arms
    rows: list[tuple[str, list[object]]] = [
        ("compiler", [arm.compiler for arm in arms]),
        ("proof of the compiler", [", ".join(map(" ".join, arm.proof.items())) for arm in arms]),
        ("batch size", [arm.batch_size for arm in arms]),
        ("learning rate", [f"{arm.learning_rate:g}" for arm in arms]),
        ("precision", [arm.precision for arm in arms]),
    ]
    accelerated = any(it.environment.get("accelerator") != "none" for it in arms if it.environment)
    for name in sorted({name for arm in arms for name in arm.environment}):
        if accelerated or not _OF_GPUS.fullmatch(name):
            rows.append((name, [arm.environment.get(name) for arm in arms]))
    cells = ((name, *(str(it or NOTHING) for it in values)) for name, values in rows)
    return Table(("", *(arm.arm for arm in arms)), tuple(cells))
