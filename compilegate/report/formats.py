"""How the report writes numbers: seconds, bytes, ratios, counts. Pure; used by every rendering."""

from __future__ import annotations

import re
from collections.abc import Sequence

from compilegate.gate.findings import Code, Outcome
from compilegate.gate.metrics import NATS, OWN, unit_of
from compilegate.gate.observations import ArmObservation, Observations, ReplicateObservation
from compilegate.gate.verdict import (
    CandidateVerdict,
    CompileState,
    CompileTime,
    MemoryJudgement,
    MetricJudgement,
    ParityAnswer,
    ParityJudgement,
    RunJudgement,
    SpeedJudgement,
)
from compilegate.job.evidence import PaddingRecord

WATCHED = "watched"
"""In the place of an outcome, for what decides nothing."""
MARKS = {
    Outcome.PASS: "\N{CHECK MARK}",
    Outcome.INCONCLUSIVE: "?",
    Outcome.FAIL: "\N{MULTIPLICATION X}",
    WATCHED: "\N{BULLET}",
}
"""Beside each outcome's colour, for those who do not see it."""
_MOST_SHOWN = 10
"""Values of a printed metric."""
_NUMBER = re.compile(r"\d[\d.,e+-]*")
_WRITTEN_OUT = (1e3, 1e9)
"""From where to where three digits are followed by noughts."""
LARGE_SHARE, WORTH_SAYING = 0.3, 0.1
"""How much of what is computed may be padding, and must be saved, before buckets are advised."""
NOTHING = "–"  # noqa: RUF001 - an en dash stands for "not measured" in tables


def seconds(value: float | None) -> str:
    """A duration with the unit that suits its size: ``42 ms``, ``3.1 s``, ``12 min``, ``6.2 h``."""
    if value is None:
        return NOTHING
    size = abs(value)
    if size < 1.0:
        return f"{value * 1000:.3g} ms"
    if size < 100.0:
        return f"{value:.1f} s"
    if size < 7200.0:
        return f"{value / 60:.1f} min"
    return f"{value / 3600:,.1f} h"


def memory(value: int | None) -> str:
    """Bytes in MB or GB (powers of ten)."""
    if not value:
        return "not measured"
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def peak_memory(judgement: MemoryJudgement) -> str:
    """Both arms' peaks, and how much more the candidate's is."""
    candidate, baseline = memory(judgement.candidate_bytes), memory(judgement.baseline_bytes)
    if judgement.increase is None:
        return f"Candidate {candidate}, baseline {baseline}: {judgement.obstacle}"
    whose = {"device": "of the device", "process": "of the process"}
    limit = judgement.max_increase
    allowed = "" if limit is None else f"; at most {limit * 100:+.4g}% is allowed"
    return (
        f"{candidate} against {baseline} ({judgement.increase * 100:+.1f}%), "
        f"{whose.get(judgement.candidate_of or '', '')}{allowed}"
    )


def speed_sources(speed: SpeedJudgement) -> list[tuple[str, str]]:
    """(what, measured): by alternating blocks, and beside it by the jobs' own step times."""
    paired, jobs = speed.paired, speed.by_jobs
    if paired is None or jobs is None:
        return []
    return [
        ("Measured by", f"{paired.pairs} pairs of alternating blocks, in {paired.jobs} jobs"),
        (
            "Forward, backward and update alone",
            f"{times(paired.steps_alone)} ({seconds(paired.candidate_step_seconds)} against "
            f"{seconds(paired.baseline_step_seconds)}); the rest is {paired.rest_share:.0%} of a "
            "step",
        ),
        (
            "By the jobs' own step times",
            f"{times(jobs.estimate)} ({times(jobs.lower)} to {times(jobs.upper)})"
            + (": contradicts it" if speed.disagree else ""),
        ),
    ]


def noticed(observations: Observations) -> list[tuple[str, str]]:
    """(which jobs, what they noticed), each note once: those of seeds differ in numbers alone, and
    the first one stands for all."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for item in observations.replicates:
        for note in item.notes:
            found.setdefault((item.arm, _NUMBER.sub("0", note)), []).append((item.seed, note))
    return [
        (f"{arm}, seed {', '.join(str(seed) for seed, _ in said)}", said[0][1])
        for (arm, _), said in found.items()
    ]


def printed(observations: Observations) -> list[tuple[str, str, str, str]]:
    """(arm, seed, metric, how its value went) of what jobs only printed."""
    return [
        (item.arm, str(item.seed), name, _went(values))
        for item in observations.replicates
        for name, values in item.printed.items()
    ]


def _went(values: Sequence[float]) -> str:
    shown = [f"{value:.5g}" for value in values]
    if len(shown) > _MOST_SHOWN:
        shown = [*shown[: _MOST_SHOWN // 2], "...", *shown[-_MOST_SHOWN // 2 :]]
    return ", ".join(shown)


def times(value: float | None) -> str:
    """A ratio to two decimals, with a multiplication sign."""
    return NOTHING if value is None else f"{value:.2f}×"  # noqa: RUF001


def count(value: int | None) -> str:
    """A count with thousands separated."""
    return NOTHING if value is None else f"{value:,}"


def rate(value: float | None) -> str:
    """Samples per second."""
    return NOTHING if value is None else f"{value:,.1f}"


def break_even(steps: int | None, minutes: float | None) -> str:
    """When compilation has paid for itself."""
    if steps is None or minutes is None:
        return "never"
    if steps == 0:
        return "from the first step"
    return f"{steps:,} steps, {seconds(minutes * 60)}"


def compilation(time: CompileTime | None, state: CompileState) -> str:
    """Compile seconds in one state: ``25.1 s cold (first step 25.3 s)``."""
    if time is None:
        return f"{state} not measured"
    whose = ", of the jobs that filled the cache" if time.earlier else ""
    return f"{seconds(time.seconds)} {state} (first step {seconds(time.first_step_seconds)}{whose})"


def asked_for(speed: SpeedJudgement) -> str:
    """The one limit that decides, and where it comes from: the declared minimum, or what it takes
    to repay compilation where that is more."""
    required = speed.required_speedup
    if required is not None and required <= speed.min_speedup:
        return f"{times(required)}, as declared"
    limit = "no speed-up is enough" if required is None else times(required)
    if speed.run is None:
        return limit
    comma = "" if required is None else ","
    return (
        f"{limit}{comma} to repay {speed.run.compile_state} compilation within "
        f"{count(speed.run.repaid_within_steps)} steps"
    )


def compilations(run: RunJudgement) -> str:
    """Cold and warm compile seconds of a candidate, in one line."""
    states = ((run.compile_cold, CompileState.COLD), (run.compile_warm, CompileState.WARM))
    return ", ".join(compilation(time, state) for time, state in states)


def replicate_compilation(replicate: ReplicateObservation) -> str:
    """Compile seconds of one job, with the state of its compile cache; a dash without graphs."""
    if not replicate.graphs:
        return NOTHING
    cache = f" ({replicate.compile_cache})" if replicate.compile_cache else ""
    return f"{seconds(replicate.compile_seconds)}{cache}"


def metric_name(metric: str) -> str:
    """``macro_f1`` as people write it; a user's own metric as the user does."""
    names = {
        "accuracy": "Accuracy",
        "balanced_accuracy": "Balanced accuracy",
        "macro_f1": "Macro F1",
        "micro_f1": "Micro F1",
        "auroc": "AUROC",
        "log_loss": "Log loss",
        "loss": "Loss",
        "perplexity": "Perplexity",
        "calibration_error": "Calibration error",
        "mse": "Mean squared error",
        "mae": "Mean absolute error",
    }
    return names.get(metric, metric)


def margin(metric: MetricJudgement) -> str:
    """The limit of a metric's difference, with its sign."""
    if metric.limit is None:
        return NOTHING
    return unit_of(metric.metric).number(metric.limit, signed=True)


def margin_in_words(metric: MetricJudgement) -> str:
    """For a chart's description."""
    if metric.limit is None:
        return "only watched"
    return f"margin {unit_of(metric.metric).amount(metric.limit, signed=True)}"


def metric_value(metric: str, value: float | None) -> str:
    """A metric's value: per cent for fractions, nats for log loss, else four digits."""
    if value is None:
        return NOTHING
    if unit_of(metric) == OWN:
        return f"{value:.4g}"
    return f"{value:.4f}" if unit_of(metric) == NATS else f"{value * 100:.2f}%"


def parity_answer(parity: ParityJudgement | None) -> str:
    """``pass``, ``fail`` or ``cannot tell``."""
    return NOTHING if parity is None else str(parity.answer).replace("_", " ")


def parity_outcome(parity: ParityJudgement) -> Outcome:
    """The outcome whose colour and mark the answer is shown with."""
    return {
        ParityAnswer.PASS: Outcome.PASS,
        ParityAnswer.FAIL: Outcome.FAIL,
        ParityAnswer.CANNOT_TELL: Outcome.INCONCLUSIVE,
    }[parity.answer]


def error_ratio(ratio: float | None) -> str:
    """An error as a multiple of what rounding explains: three digits, written out as people do."""
    if ratio is None:
        return "not a finite number"
    if not _WRITTEN_OUT[0] <= abs(ratio) < _WRITTEN_OUT[1]:
        return f"{ratio:.3g} times"
    return f"{float(f'{ratio:.3g}'):,.0f} times"


def parity_rows(parity: ParityJudgement) -> list[tuple[str, str]]:
    """(what, measured) of a parity probe; the answer and its sentence stand elsewhere."""
    rows = []
    if parity.worst is not None and parity.limit is not None:
        ratio = parity.worst.ratio
        found = error_ratio(ratio)
        rows += [
            (
                "Largest error, against what eager's rounding explains",
                f"{found}, limit {parity.limit:g} times",
            ),
            ("Where", f"{parity.worst.tensor}, step {parity.worst.step}, seed {parity.seed}"),
        ]
    if parity.median_ratio is not None:
        rows.append(("Typical error (median)", f"{parity.median_ratio:.3g} times"))
    if parity.steps:
        compared = f"{parity.steps} steps, {parity.judged} of {parity.tensors} tensors"
        rows.append(("Compared", f"{compared}, in {parity.precision}"))
    return rows


DECLARED = ("compiler", "batch size", "learning rate", "precision")
"""What a workload declares of an arm."""


def declared(arm: ArmObservation) -> dict[str, str]:
    """By the names of DECLARED; a dash where models are compared, not arms."""
    rate = None if arm.learning_rate is None else f"{arm.learning_rate:g}"
    values = (_compiler(arm), arm.batch_size, rate, arm.precision)
    return {
        name: NOTHING if value is None else str(value)
        for name, value in zip(DECLARED, values, strict=True)
    }


def _compiler(arm: ArmObservation) -> str | None:
    """With its backend where it has several, as its jobs were told: torch-compile:aot_eager."""
    backend = arm.proof.get("backend")
    if arm.compiler is None or backend in (None, arm.compiler):
        return arm.compiler
    return f"{arm.compiler}:{backend}"


PADDING_HEADER = (
    "Padding",
    "Lengths of a step",
    "Positions of an epoch",
    "Padding among them",
    "Positions with buckets",
)
"""How an arm's documents were padded, and what that cost."""
MOST_BINS = 8
"""Rows of a histogram in a table."""


def padding_cells(record: PaddingRecord) -> tuple[str, ...]:
    """One row under PADDING_HEADER."""
    buckets = record.positions.buckets
    change = -record.saved_by_buckets
    return (
        record.padding,
        ", ".join(map(str, record.lengths)) or "each its own",
        count(record.computed),
        f"{record.share:.0%}",
        NOTHING if record.padding == "buckets" else f"{count(buckets)} ({change:+.0%})",
    )


def length_rows(record: PaddingRecord) -> list[tuple[str, str]]:
    """(lengths, documents): the histogram of lengths in a few rows."""
    bins = len(record.histogram_upto)
    each = -(-bins // MOST_BINS)
    rows, lower = [], 1
    for first in range(0, bins, each):
        upper = record.histogram_upto[min(first + each, bins) - 1]
        documents = sum(record.histogram_documents[first : first + each])
        rows.append((f"{lower} to {upper}", count(documents)))
        lower = upper + 1
    return rows


def no_confounds(candidate: CandidateVerdict) -> str:
    """What is said in the place of a table of differences."""
    if not candidate.metrics:
        return "Nothing that could be seen."
    if any(note.code is Code.PRINTED_ONLY for note in candidate.notes):
        return "Nothing that the jobs were told; what else differed they did not record."
    return "Nothing: the compiler is the only difference."


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
