"""Speed: does a candidate train faster than the baseline, and when has compilation paid off?

The speed of a replicate is its samples per second over all its steady steps: the total, not the
median, because stalls and slow steps are paid for too. It is recomputed here from the step times.

Training jobs are the unit of replication: steps of one job share its machine, and their number says
nothing about the next machine. So the interval of the speed-up is Welch's, over the logarithms of
the jobs' speeds. With one job an arm there is no such spread, and a moving-block bootstrap over the
steps (Kuensch 1989) stands in: it covers that one run only, and the verdict says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from pipelines.gate.compile_time import CompileTimes, compile_times
from pipelines.gate.reasons import Code, Number, Outcome, Reason
from pipelines.gate.settling import MOST_SEEDS
from pipelines.gate.verdict import Interval, SpeedJudgement
from training.evidence import Evidence, EvidenceRecord, FloatArray, Steps

STAY_OFF_BELOW = 1.10
"""Under this speed-up a compiler does not pay for the risk and the work of keeping it on."""
MIN_STEADY_STEPS = 10
RESAMPLES = 2000


@dataclass(frozen=True)
class ArmSpeed:
    """What the replicates of one arm measured."""

    batch_size: int
    rates: tuple[float, ...]
    """Steady-state samples per second of each replicate."""
    steady_seconds: tuple[FloatArray, ...]
    """The steady step times of each replicate."""
    compilation: CompileTimes
    train_seconds: float
    """Mean over the replicates."""
    peak_memory_bytes: int
    steps: int
    """Of the longest replicate."""

    @property
    def rate(self) -> float:
        """Samples per second of the arm: the geometric mean, so that ratios are consistent."""
        return math.exp(float(np.mean(np.log(self.rates))))


def steady_seconds(evidence: Evidence, steps: Steps) -> FloatArray:
    """The step times that count: from `steady_from` on."""
    start = 0 if evidence.speed is None else evidence.speed.steady_from
    return steps.seconds[start:]


def measure_arm(batch_size: int, records: Sequence[EvidenceRecord]) -> ArmSpeed | None:
    """The speed of one arm; None when a replicate has fewer than MIN_STEADY_STEPS steady steps."""
    measured = []
    for record in records:
        speed, steps = record.evidence.speed, record.steps
        if speed is None or steps is None:
            return None
        seconds = steady_seconds(record.evidence, steps)
        if len(seconds) < MIN_STEADY_STEPS:
            return None
        measured.append((record.evidence, speed, seconds))
    return ArmSpeed(
        batch_size=batch_size,
        rates=tuple(batch_size * len(seconds) / float(seconds.sum()) for _, _, seconds in measured),
        steady_seconds=tuple(seconds for _, _, seconds in measured),
        compilation=compile_times(records),
        train_seconds=_mean(speed.train_seconds for _, speed, _ in measured),
        peak_memory_bytes=max(evidence.peak_memory_bytes for evidence, _, _ in measured),
        steps=max(len(record.steps.loss) for record in records if record.steps is not None),
    )


def judge_speed(
    baseline: ArmSpeed | None, candidate: ArmSpeed | None, *, min_speedup: float, confidence: float
) -> tuple[SpeedJudgement | None, Reason]:
    """Compare two arms' speeds with the declared minimum; the reason says the outcome in words."""
    if baseline is None or candidate is None:
        return None, _unmeasured("baseline" if baseline is None else "candidate")
    speedup, one_run = speedup_interval(baseline, candidate, confidence)
    outcome = _outcome(speedup, min_speedup)
    seeds_needed = (
        seeds_to_settle(baseline, candidate, min_speedup, confidence)
        if outcome is Outcome.INCONCLUSIVE
        else None
    )
    break_even = break_even_samples(baseline, candidate)
    judgement = SpeedJudgement(
        outcome=outcome,
        speedup=speedup,
        min_speedup=min_speedup,
        conditional_on_run=one_run,
        baseline_samples_per_second=baseline.rate,
        candidate_samples_per_second=candidate.rate,
        baseline_compile_seconds=baseline.compilation.seconds,
        candidate_compile_seconds=candidate.compilation.seconds,
        compile_state=candidate.compilation.state,
        compile_cold=candidate.compilation.cold,
        compile_warm=candidate.compilation.warm,
        candidate_batch_size=candidate.batch_size,
        candidate_steps=candidate.steps,
        break_even_steps=(
            None if break_even is None else math.ceil(break_even / candidate.batch_size)
        ),
        break_even_minutes=(
            None
            if break_even is None
            else (baseline.compilation.seconds + break_even / baseline.rate) / 60.0
        ),
        train_time_ratio=(
            baseline.train_seconds / candidate.train_seconds if candidate.train_seconds else None
        ),
        baseline_train_seconds=baseline.train_seconds,
        candidate_train_seconds=candidate.train_seconds,
        baseline_peak_memory_bytes=baseline.peak_memory_bytes,
        candidate_peak_memory_bytes=candidate.peak_memory_bytes,
        advice=_advice(speedup.estimate, outcome, min_speedup),
        seeds=min(len(baseline.rates), len(candidate.rates)),
        seeds_needed=seeds_needed,
    )
    return judgement, _reason(judgement, confidence)


def speedup_interval(
    baseline: ArmSpeed, candidate: ArmSpeed, confidence: float
) -> tuple[Interval, bool]:
    """The ratio of samples per second with one-sided bounds; True when it covers one run only."""
    if min(len(baseline.rates), len(candidate.rates)) < 2:
        return _bootstrap_over_steps(baseline, candidate, confidence), True
    return _welch(np.log(baseline.rates), np.log(candidate.rates), confidence), False


def seeds_to_settle(
    baseline: ArmSpeed, candidate: ArmSpeed, min_speedup: float, confidence: float
) -> int | None:
    """Seeds of each arm at which the bounds would lie to one side of `min_speedup`.

    The estimate and the jobs' spread are taken as they are. None where that spread is not known,
    or MOST_SEEDS would not do.
    """
    logs = [np.log(arm.rates) for arm in (baseline, candidate)]
    if min(len(rates) for rates in logs) < 2:
        return None
    variances = [float(rates.var(ddof=1)) for rates in logs]
    distance = abs(math.log(candidate.rate / baseline.rate / min_speedup))
    for seeds in range(max(len(rates) for rates in logs) + 1, MOST_SEEDS + 1):
        if _welch_half_width(variances, [seeds, seeds], confidence) < distance:
            return seeds
    return None


def break_even_samples(baseline: ArmSpeed, candidate: ArmSpeed) -> float | None:
    """Training samples after which compilation has paid for itself; None when it never does."""
    saved_per_sample = 1.0 / baseline.rate - 1.0 / candidate.rate
    if saved_per_sample <= 0.0:
        return None
    overhead = max(candidate.compilation.seconds - baseline.compilation.seconds, 0.0)
    samples = overhead / saved_per_sample
    return samples if math.isfinite(samples) else None


def _welch(baseline: FloatArray, candidate: FloatArray, confidence: float) -> Interval:
    difference = float(candidate.mean() - baseline.mean())
    half_width = _welch_half_width(
        [float(rates.var(ddof=1)) for rates in (baseline, candidate)],
        [len(rates) for rates in (baseline, candidate)],
        confidence,
    )
    return Interval(
        math.exp(difference), math.exp(difference - half_width), math.exp(difference + half_width)
    )


def _welch_half_width(
    variances: Sequence[float], counts: Sequence[int], confidence: float
) -> float:
    parts = [variance / count for variance, count in zip(variances, counts, strict=True)]
    total = sum(parts)
    if total == 0.0:
        return 0.0
    freedom = 1.0 / sum(
        (part / total) ** 2 / (count - 1) for part, count in zip(parts, counts, strict=True)
    )
    return float(stdtrit(freedom, confidence)) * math.sqrt(total)


def _bootstrap_over_steps(baseline: ArmSpeed, candidate: ArmSpeed, confidence: float) -> Interval:
    # A fixed generator: the same evidence must give the same verdict.
    generator = np.random.default_rng(0)
    ratios = (
        _resampled_means(baseline.steady_seconds[0], generator)
        / _resampled_means(candidate.steady_seconds[0], generator)
        * (candidate.batch_size / baseline.batch_size)
    )
    lower, upper = np.quantile(ratios, [1.0 - confidence, confidence])
    return Interval(candidate.rate / baseline.rate, float(lower), float(upper))


def _resampled_means(seconds: FloatArray, generator: np.random.Generator) -> FloatArray:
    length = math.ceil(len(seconds) ** (1 / 3))
    sums = np.concatenate([[0.0], np.cumsum(seconds)])
    block_means = (sums[length:] - sums[:-length]) / length
    blocks = math.ceil(len(seconds) / length)
    return np.array(
        [
            block_means[generator.integers(0, len(block_means), blocks)].mean()
            for _ in range(RESAMPLES)
        ]
    )


def _outcome(speedup: Interval, min_speedup: float) -> Outcome:
    if speedup.lower >= min_speedup:
        return Outcome.PASS
    return Outcome.FAIL if speedup.upper < min_speedup else Outcome.INCONCLUSIVE


def _advice(estimate: float, outcome: Outcome, min_speedup: float) -> str:
    if outcome is Outcome.PASS:
        return "fast enough to turn on"
    if estimate >= min_speedup:
        return "fast enough if it holds: benchmark longer, or with more seeds"
    if estimate < STAY_OFF_BELOW:
        return "stay off"
    return "borderline: benchmark longer"


_CODES = {
    Outcome.PASS: Code.SPEED_FASTER,
    Outcome.INCONCLUSIVE: Code.SPEED_UNDECIDED,
    Outcome.FAIL: Code.SPEED_BELOW_MINIMUM,
}


def _reason(judgement: SpeedJudgement, confidence: float) -> Reason:
    speedup = judgement.speedup
    scope = " (of this one run)" if judgement.conditional_on_run else ""
    sentence = (
        f"Speed-up {speedup.estimate:.2f} times, between {speedup.lower:.2f} and "
        f"{speedup.upper:.2f} ({confidence * 100:g}% bounds){scope}; "
        f"at least {judgement.min_speedup:.2f} is asked for: {judgement.advice}."
        f"{_what_settles_it(judgement)}{_compilation(judgement)}{_when_paid_for(judgement)}"
    )
    numbers: dict[str, Number] = {
        "speedup": speedup.estimate,
        "lower": speedup.lower,
        "upper": speedup.upper,
        "min_speedup": judgement.min_speedup,
        "break_even_steps": judgement.break_even_steps,
        "seeds_needed": judgement.seeds_needed,
    }
    return Reason(_CODES[judgement.outcome], judgement.outcome, sentence, numbers)


def _compilation(judgement: SpeedJudgement) -> str:
    """What compiling took in each state that was measured; nothing where nothing was compiled."""
    if not judgement.candidate_compile_seconds:
        return ""
    states = ((judgement.compile_cold, "cold"), (judgement.compile_warm, "warm"))
    told = [f"{time.seconds:.1f} s {state}" for time, state in states if time is not None]
    return f" Compiling took {', '.join(told)}."


def _what_settles_it(judgement: SpeedJudgement) -> str:
    if judgement.outcome is not Outcome.INCONCLUSIVE:
        return ""
    if judgement.seeds_needed is not None:
        return (
            f" About {judgement.seeds_needed} seeds instead of {judgement.seeds} would settle it."
        )
    if judgement.conditional_on_run:
        return " With two seeds or more the spread between jobs can be seen."
    return f" Even {MOST_SEEDS} seeds would not settle it: the speed-up is at the minimum."


def _when_paid_for(judgement: SpeedJudgement) -> str:
    """A warning where faster steps do not make this run end earlier."""
    needed = judgement.break_even_steps
    if needed is None or needed <= judgement.candidate_steps:
        return ""
    return (
        f" In runs of {judgement.candidate_steps:,} steps a {judgement.compile_state} compilation "
        f"costs more than it saves: it takes {needed:,} to break even."
    )


def _unmeasured(role: str) -> Reason:
    return Reason(
        Code.SPEED_UNMEASURED,
        Outcome.INCONCLUSIVE,
        f"Speed was not measured: a replicate of the {role} has fewer than {MIN_STEADY_STEPS} "
        "steady steps; train longer.",
        {"min_steady_steps": MIN_STEADY_STEPS},
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
