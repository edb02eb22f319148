"""Speed: does a candidate train faster than the baseline, by enough, and within a run? Pure.

**What a job shows.** The speed of a replicate is its samples per second over all its steady steps:
the total, not the median, because stalls and slow steps are paid for too.

**Jobs.** Training jobs are the unit of replication: steps of one job share its machine, and their
number says nothing about the next machine. So the interval is Welch's, over the logarithms of the
jobs' speeds. With one job in an arm there is no such spread, and a moving-block bootstrap over the
steps of all jobs (Kuensch 1989) stands in: it covers these runs only.

**Alternating blocks.** Two jobs are timed at different times, beside different neighbours. Blocks
of the baseline's step and of the candidate's that alternate in one process are not: what slows a
machine for longer than a block slows both. A job's ratio is the 20% trimmed mean of its pairs'
logarithms, taken apart for the pairs that the baseline began and those that it ended, so that a
drift within pairs cancels. The probe takes forward, backward and update; a training step has a rest
besides (loader, loss, logging), which both arms have: the speed-up of whole steps is
(baseline + rest) / (candidate + rest). The rest has bounds, since it compares what was timed at
different times: the training is cut into stretches as long as the probe, and the 90% quantile of
their means is held against the probe's median for the lower bound, the 10% quantile for the upper.
Where batch sizes differ, the rest of the baseline's step lies between the candidate's rest for each
step and for each sample. The bounds are Student's over the jobs' logarithms, and never nearer than
what each job shows of itself: the bound of its rest, and the error of its trimmed mean (Tukey &
McLaughlin, Sankhya A 1963), widened by the autocorrelation of consecutive pairs.

**What is required.** Steps that are 1.3 times as fast do not make a run end earlier that compiles
for longer than its steps save, or spends more time between its steps. A run of n samples takes

    baseline   n / rate + its own seconds outside of steps
    candidate  n / (rate x speed-up) + its seconds outside of steps

and ends no later when the speed-up is at least (n / rate) / (n / rate - difference of the seconds).
That limit and the declared minimum are put to the speed-up; the larger one is binding. Alternating
blocks decide where two jobs or more have them. But where they contradict the jobs' own step times,
and these would not pass, something may slow this training that its steps taken again do not show,
and nothing passes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit

from compilegate.gate.findings import (
    Code,
    Note,
    Number,
    Outcome,
    Reason,
    clipped,
    counted,
    failure,
    undecided,
)
from compilegate.gate.forecast import MOST_SEEDS, POWER
from compilegate.gate.record import outside_of_steps
from compilegate.gate.settings import ArmDeclaration, GateSettings
from compilegate.gate.statistics import welch_freedom
from compilegate.gate.verdict import (
    CompileState,
    CompileTime,
    Interval,
    PairedJudgement,
    RunJudgement,
    SpeedJudgement,
    SpeedSource,
)
from compilegate.job.evidence import (
    CompileCacheRecord,
    Evidence,
    EvidenceRecord,
    FloatArray,
    Hindrance,
    PaddingRecord,
    PairedBlocks,
    PairedSpeedRecord,
)
from compilegate.job.evidence.hindrances import (
    BREAKS,
    HINDRANCES,
    LOADER,
    RECOMPILATIONS,
    SHAPES,
    SYNCHRONISATION,
)
from compilegate.job.evidence.steady import (
    LEAST_SHARE,
    added_seconds,
    are_durations,
    steady_seconds,
)
from compilegate.job.names import SPEED_METRIC

MIN_STEADY_STEPS = 10
NEARLY = 1.5
"""Jobs know better than their steps show what compiling took, up to this factor."""
BETWEEN_STEPS, MOST_BETWEEN = 0.05, 0.5
"""The share of a training, and the seconds, that a candidate may spend between its steps more than
the baseline: a loaded machine does that."""
RESAMPLES = 2000
MOST_LOGARITHM = 700.0
"""The logarithm of the largest finite ratio: with two very different jobs a bound is as good as
infinite."""
EXACTLY = 1.0 - 1e-9
"""The last bits of a ratio that is exactly at its limit may be lacking."""
STAY_OFF_BELOW = 1.10
"""Under this speed-up a compiler does not pay for the risk and the work of keeping it on."""
FAR_APART = 2.5
"""Times by which two measurements of one speed-up differ that no neighbour of a job explains."""
DECIMALS = 9
LEAST_PAIRS = 6
"""In a job: three that the baseline began and three that it ended."""
LEAST_OF_AN_ORDER, MOST_OF_AN_ORDER = 0.2, 0.8
"""The share of the pairs that the baseline begins; the probe changes the order every time."""
LEAST_JOBS = 2
MOST_TIMES_A_STEP = 50.0
"""Times that a step of the training and one of the probe may differ by; a busy machine makes
several, and a loader that is waited for dozens."""
TRIMMED = 0.2
"""The share of the pairs that is left out at either end."""
SLOW_TIMES, QUICK_TIMES = 0.9, 0.1
"""The quantiles of the training's stretches that bound the rest of a step."""
MOST_LOAD = 1.5
"""Processes for each processor, those that wait for one included."""
MOST_STEAL = 0.05
"""Share of the processors' time that the hypervisor may give to others."""
LARGE_SHARE, WORTH_SAYING = 0.3, 0.1
"""How much of what is computed may be padding, and must be saved, before buckets are advised."""


# What the jobs of an arm show.


@dataclass(frozen=True)
class Runs:
    """What the whole trainings of one arm took."""

    steady_seconds: tuple[FloatArray, ...]
    """The steady step times of each replicate."""
    compilation: CompileTimes
    train_seconds: float
    """Mean over the replicates."""
    steps: int
    """In the longest replicate."""
    between_seconds: float = 0.0
    """What is in no step, compilation or lost machine: the mean over the replicates."""
    interruptions: int = 0
    """In all replicates: how often one lost its machine and resumed from a checkpoint."""
    lost_seconds: float = 0.0
    """What they cost in all; part of `train_seconds`, and of no steady step."""


@dataclass(frozen=True)
class ArmSpeed:
    """What the replicates of one arm measured."""

    batch_size: int
    rates: tuple[float, ...]
    """Steady-state samples per second of each replicate."""
    runs: Runs | None
    """None where the jobs only printed their speed."""

    @property
    def rate(self) -> float:
        """Samples per second of the arm: the geometric mean, so that ratios are consistent."""
        return math.exp(float(np.mean(np.log(self.rates))))

    @property
    def rounding(self) -> float:
        """Half of the last decimal of printed rates, as a share of the arm's; zero of others."""
        if self.runs is not None:
            return 0.0
        digits = range(DECIMALS)
        found = (it for it in digits if all(round(rate, it) == rate for rate in self.rates))
        decimals = next(found, None)
        return 0.0 if decimals is None else 0.5 * 10.0**-decimals / self.rate


@dataclass(frozen=True)
class UnknownSpeed:
    """An arm whose speed is not known."""

    why: str
    """In words that follow "a job of the baseline"."""


def measure_arm(batch_size: int, records: Sequence[EvidenceRecord]) -> ArmSpeed | UnknownSpeed:
    """The speed of one arm by its records; `batch_size` is that of a step, of all processes."""
    steps = [record.steps for record in records if record.steps is not None]
    speeds = [record.evidence.speed for record in records if record.evidence.speed is not None]
    if not records or len(steps) < len(records) or len(speeds) < len(records):
        return _reported_speed(batch_size, records)
    evidence = [record.evidence for record in records]
    seconds = tuple(steady_seconds(one, it) for one, it in zip(evidence, steps, strict=True))
    if min(map(len, seconds)) < MIN_STEADY_STEPS:
        return UnknownSpeed(f"has fewer than {MIN_STEADY_STEPS} steady steps; train longer")
    if any(len(each) < LEAST_SHARE * len(it.loss) for each, it in zip(seconds, steps, strict=True)):
        return UnknownSpeed("was still warming up in more than half of its steps; train longer")
    resumed = [each for one in evidence for each in one.resumed]
    between = [
        max(speed.train_seconds - float(it.seconds.sum()) - outside_of_steps(one, it), 0.0)
        for one, speed, it in zip(evidence, speeds, steps, strict=True)
    ]
    return ArmSpeed(
        batch_size=batch_size,
        rates=tuple(batch_size * len(each) / float(each.sum()) for each in seconds),
        runs=Runs(
            steady_seconds=seconds,
            compilation=compile_times(records),
            train_seconds=_mean([speed.train_seconds for speed in speeds]),
            steps=max(len(each.loss) for each in steps),
            between_seconds=_mean(between),
            interruptions=len(resumed),
            lost_seconds=sum(each.lost_seconds for each in resumed),
        ),
    )


def _reported_speed(batch_size: int, records: Sequence[EvidenceRecord]) -> ArmSpeed | UnknownSpeed:
    metrics = [record.evidence.metrics for record in records]
    known = tuple(each[SPEED_METRIC] for each in metrics if SPEED_METRIC in each)
    # With one job there are no steps to show how sure its speed is.
    if len(known) < max(len(records), 2):
        return UnknownSpeed("did not report its speed (`speed_metric`)")
    return ArmSpeed(batch_size, known, runs=None)


@dataclass(frozen=True)
class CompileTimes:
    """Both states of one arm; None where a state was not measured. At least one was."""

    cold: CompileTime | None
    warm: CompileTime | None

    @property
    def state(self) -> CompileState:
        """What a retraining like these starts from: warm as soon as one of them did, since what
        it found is there for the next one too."""
        return CompileState.COLD if self.warm is None else CompileState.WARM

    @property
    def seconds(self) -> float:
        """Compile seconds in that state: what each retraining pays."""
        counted = self.cold if self.warm is None else self.warm
        return 0.0 if counted is None else counted.seconds


def compile_times(records: Sequence[EvidenceRecord]) -> CompileTimes:
    """The compile times of an arm's replicates, which are all measured.

    A job without a cache record started cold. Where all were warm, the cold figures are those
    that came with the cache.
    """
    warm = [record for record in records if _was_warm(record.evidence.compile_cache)]
    cold = [record for record in records if not _was_warm(record.evidence.compile_cache)]
    return CompileTimes(cold=_measured(cold) if cold else _earlier(warm), warm=_measured(warm))


def _was_warm(cache: CompileCacheRecord | None) -> bool:
    return cache is not None and cache.state == CompileState.WARM


def _measured(records: Sequence[EvidenceRecord]) -> CompileTime | None:
    measured = [
        (compile_seconds(record), float(record.steps.seconds[0]))
        for record in records
        if record.evidence.compiler is not None
        and record.steps is not None
        and len(record.steps.seconds)
    ]
    return _time(measured)


def compile_seconds(record: EvidenceRecord) -> float:
    """What compiling took in this job: what it says itself, or what its steps show if that is more.

    A job that left its `compile_seconds` at zero beside a first step of 300 s has compiled for
    300 s. An eager job compiles nothing: its first steps are slow for other reasons.
    """
    evidence, compiler = record.evidence, record.evidence.compiler
    if compiler is None:
        return 0.0
    if record.steps is None or not compiler.ran:
        return compiler.compile_seconds
    shown = added_seconds(evidence, record.steps)
    return shown if shown > NEARLY * compiler.compile_seconds else compiler.compile_seconds


def _earlier(records: Sequence[EvidenceRecord]) -> CompileTime | None:
    measured = [
        (cache.cold_compile_seconds, cache.cold_first_step_seconds)
        for cache in (record.evidence.compile_cache for record in records)
        if cache is not None
        and cache.cold_compile_seconds is not None
        and cache.cold_first_step_seconds is not None
    ]
    return _time(measured, earlier=True)


def _time(measured: Sequence[tuple[float, float]], *, earlier: bool = False) -> CompileTime | None:
    if not measured:
        return None
    seconds, first_steps = zip(*measured, strict=True)
    return CompileTime(
        float(np.mean(seconds)), float(np.mean(first_steps)), jobs=len(measured), earlier=earlier
    )


# Alternating blocks.


@dataclass(frozen=True)
class JobRatio:
    """One job's speed-up as logarithms: by the least, the likely and the longest rest."""

    bounds: tuple[float, float, float]
    """The lowest, the likely and the highest."""
    error: float
    """Standard error, by the spread of its pairs."""
    freedom: float
    rest: float
    """The likely rest, as a share of the candidate's step in the probe."""


@dataclass(frozen=True)
class PairedJob:
    """What one job of the candidate measured by alternating blocks."""

    blocks: PairedBlocks
    steady_seconds: FloatArray
    """Its own training's steady step times."""
    steps_per_block: int
    batch_ratio: float
    """Samples of a step of the candidate's over those of the baseline's."""
    seconds: float = 0.0
    """What the probe took."""

    @cached_property
    def ratio(self) -> JobRatio:
        """Its speed-up, whatever the confidence."""
        return _ratio(self)


@dataclass(frozen=True)
class Pairs:
    """What the jobs of a candidate measured by alternating blocks."""

    jobs: tuple[PairedJob, ...] = ()
    obstacles: tuple[str, ...] = ()
    """Why a job has no pairs that count, in a sentence without its full stop; jobs that were not
    asked for any say nothing."""

    @property
    def decide(self) -> bool:
        """Whether there are enough of them to judge by."""
        return len(self.jobs) >= LEAST_JOBS


def paired_jobs(
    records: Sequence[EvidenceRecord], baseline: ArmDeclaration, candidate: ArmDeclaration
) -> Pairs:
    """The pairs that count of a candidate's records, and why others do not."""
    jobs: list[PairedJob] = []
    obstacles: list[str] = []
    for record in records:
        found = _paired_job(record, baseline, candidate)
        if isinstance(found, PairedJob):
            jobs.append(found)
        elif found is not None:
            obstacles.append(found)
    return Pairs(tuple(jobs), tuple(dict.fromkeys(obstacles)))


def judge_pairs(jobs: Sequence[PairedJob], confidence: float) -> PairedJudgement:
    """The speed-up by two jobs or more, with one-sided bounds at this confidence."""
    ratios = [job.ratio for job in jobs]
    interval = _interval(ratios, confidence)
    return PairedJudgement(
        speedup=interval,
        jobs=len(jobs),
        pairs=sum(len(job.blocks.baseline_seconds) for job in jobs),
        steps_alone=math.exp(
            min(float(np.mean([_location(_logs(job))[0] for job in jobs])), MOST_LOGARITHM)
        )
        * jobs[0].batch_ratio,
        rest_share=float(np.mean([ratio.rest / (1.0 + ratio.rest) for ratio in ratios])),
        baseline_step_seconds=_mean([np.median(job.blocks.baseline_seconds) for job in jobs]),
        candidate_step_seconds=_mean([np.median(job.blocks.candidate_seconds) for job in jobs]),
        probe_seconds=sum(job.seconds for job in jobs),
    )


def steps_in_turns(job: PairedJob) -> float:
    """One job's likely speed-up; nothing is known of how sure it is."""
    return math.exp(min(job.ratio.bounds[1], MOST_LOGARITHM))


def jobs_to_settle(jobs: Sequence[PairedJob], required: float, confidence: float) -> int | None:
    """Jobs at which the bounds would lie to one side of `required`, in eight of ten experiments,
    if the estimate and the spread stay what they are; None where MOST_SEEDS would not do."""
    ratios = [job.ratio for job in jobs]
    lowest, likely, highest = _logarithms(ratios)
    distance = float(likely.mean()) - math.log(required)
    shift = float(likely.mean() - lowest.mean() if distance > 0 else highest.mean() - likely.mean())
    by_pairs = math.sqrt(_mean([ratio.error**2 for ratio in ratios]))
    spread = float(likely.std(ddof=1))
    for count in range(len(jobs) + 1, MOST_SEEDS + 1):
        errors = [error / math.sqrt(count) for error in (spread, by_pairs)]
        certain, planned = (float(stdtrit(count - 1, level)) for level in (confidence, POWER))
        half_width = max(certain * errors[0], shift + certain * errors[1])
        if half_width + planned * max(errors) < abs(distance):
            return count
    return None


def _paired_job(
    record: EvidenceRecord, baseline: ArmDeclaration, candidate: ArmDeclaration
) -> PairedJob | str | None:
    told, blocks = record.evidence.paired_speed, record.paired
    if told is None or record.steps is None:
        return None
    if told.obstacle is not None or blocks is None:
        return clipped(told.obstacle or "the record holds no pairs").rstrip(".")
    steady = steady_seconds(record.evidence, record.steps)
    obstacle = (
        _other_arms(told, baseline, candidate) or _no_times(blocks) or _other_unit(blocks, steady)
    )
    if obstacle is not None:
        return obstacle
    return PairedJob(
        blocks=blocks,
        steady_seconds=steady,
        steps_per_block=told.steps_per_block,
        batch_ratio=candidate.batch_size / baseline.batch_size,
        seconds=told.seconds,
    )


def _other_arms(
    told: PairedSpeedRecord, baseline: ArmDeclaration, candidate: ArmDeclaration
) -> str | None:
    """Why what was timed are not the two arms that are compared."""
    for what, before, after in (
        ("instance_type", baseline.instance_type, candidate.instance_type),
        ("image", baseline.image, candidate.image),
        ("world_size", baseline.world_size, candidate.world_size),
    ):
        if before != after:
            return (
                f"the arms differ in {what} ({before or 'the default'} and "
                f"{after or 'the default'}), and one process has one of the two"
            )
    for what, found, declared in (
        ("the baseline's compiler", told.baseline_compiler, baseline.compiler),
        ("the baseline's batch size", told.baseline_batch_size, baseline.batch_size),
        ("the candidate's batch size", told.candidate_batch_size, candidate.batch_size),
    ):
        if found != declared:
            return (
                f"{what} was {clipped(str(found), 60)} there, and the workload declares {declared}"
            )
    return None


def _no_times(blocks: PairedBlocks) -> str | None:
    """Why nothing can be told by these pairs."""
    count = len(blocks.baseline_seconds)
    if count < LEAST_PAIRS:
        return f"there are {count} pairs, and {LEAST_PAIRS} are the least"
    if not (are_durations(blocks.baseline_seconds) & are_durations(blocks.candidate_seconds)).all():
        return "one of its step times is no duration"
    if not LEAST_OF_AN_ORDER * count <= blocks.baseline_first.sum() <= MOST_OF_AN_ORDER * count:
        return "one arm almost always ran first, which biases the timing"
    return None


def _other_unit(blocks: PairedBlocks, steady: FloatArray) -> str | None:
    """Why the blocks' times are not those of the steps that trained: a step of the probe leaves
    out what a training step does besides, and takes no other order of time."""
    if not len(steady):
        return None
    step, usual = float(np.median(blocks.candidate_seconds)), float(np.median(steady))
    if usual / MOST_TIMES_A_STEP <= step <= usual * MOST_TIMES_A_STEP:
        return None
    return "its steps take quite other times there than in training; is one in another unit"


def _interval(ratios: Sequence[JobRatio], confidence: float) -> Interval:
    lowest, likely, highest = _logarithms(ratios)
    estimate = float(likely.mean())
    by_jobs = _half_width(likely, confidence)
    by_pairs = _half_width_by_pairs(ratios, confidence)
    below = max(by_jobs, estimate - float(lowest.mean()) + by_pairs)
    above = max(by_jobs, float(highest.mean()) - estimate + by_pairs)
    bounds = (estimate, estimate - below, estimate + above)
    return Interval(*(math.exp(min(max(it, -MOST_LOGARITHM), MOST_LOGARITHM)) for it in bounds))


def _logarithms(ratios: Sequence[JobRatio]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(jobs,) each: the lowest, the likely and the highest speed-up of every job."""
    lowest, likely, highest = np.array([ratio.bounds for ratio in ratios]).T
    return lowest, likely, highest


def _half_width(logs: FloatArray, confidence: float) -> float:
    count = len(logs)
    return float(stdtrit(count - 1, confidence) * logs.std(ddof=1) / math.sqrt(count))


def _half_width_by_pairs(ratios: Sequence[JobRatio], confidence: float) -> float:
    variances = np.array([ratio.error**2 for ratio in ratios])
    total = float(variances.sum())
    if total == 0.0:
        return 0.0
    shares = variances / total
    freedom = 1.0 / float(sum(shares**2 / [ratio.freedom for ratio in ratios]))
    return float(stdtrit(freedom, confidence)) * math.sqrt(total) / len(ratios)


def _ratio(job: PairedJob) -> JobRatio:
    mean, error, freedom = _location(_logs(job))
    quick, usual, slow = _rests(job)
    # The rest of the baseline's step, as a multiple of the candidate's: for each step, or sample.
    by_step, by_sample = 1.0, 1.0 / job.batch_ratio
    candidates = [
        _with_rest(mean, rest, times)
        for rest in (quick, usual, slow)
        for times in (by_step, by_sample)
    ]
    likely = _with_rest(mean, usual, by_sample)
    samples = math.log(job.batch_ratio)
    return JobRatio(
        bounds=(min(candidates) + samples, likely + samples, max(candidates) + samples),
        error=error,
        freedom=freedom,
        rest=usual,
    )


def _with_rest(mean: float, rest: float, times: float) -> float:
    """The logarithm of (baseline + rest) / (candidate + rest), in units of the candidate's step."""
    return math.log((math.exp(mean) + rest * times) / (1.0 + rest))


def _rests(job: PairedJob) -> tuple[float, float, float]:
    """The rest of a training step as a multiple of the candidate's step in the probe: at the
    training's quick times, usually, and at its slow times."""
    step = float(np.median(job.blocks.candidate_seconds))
    stretches = _stretch_means(job)
    # Of few stretches the outermost, and nothing in between.
    quick = np.quantile(stretches, QUICK_TIMES, method="lower")
    slow = np.quantile(stretches, SLOW_TIMES, method="higher")
    return (
        max(float(quick) / step - 1.0, 0.0),
        max(float(job.steady_seconds.mean()) / step - 1.0, 0.0),
        max(float(slow) / step - 1.0, 0.0),
    )


def _stretch_means(job: PairedJob) -> FloatArray:
    """Mean step times of the training, over stretches that took about as long as the probe's blocks
    did in all; there are three or more, as far as there are steps."""
    seconds = job.steady_seconds
    blocks = job.blocks
    probe = float((blocks.baseline_seconds + blocks.candidate_seconds).sum()) * job.steps_per_block
    count = int(np.clip(round(float(seconds.sum()) / max(probe, 1e-9)), 3, len(seconds)))
    starts = np.arange(count) * len(seconds) // count
    sums: FloatArray = np.add.reduceat(seconds, starts)
    return sums / np.diff(starts, append=len(seconds))


def _logs(job: PairedJob) -> tuple[FloatArray, ...]:
    """The logarithms of the pairs' ratios: those that the baseline began, those that it ended; all
    in one where there are too few of either."""
    logs: FloatArray = np.log(job.blocks.baseline_seconds / job.blocks.candidate_seconds)
    first = job.blocks.baseline_first
    parts = (logs[first], logs[~first])
    return parts if min(map(len, parts)) >= LEAST_PAIRS // 2 else (logs,)


def _location(parts: Sequence[FloatArray]) -> tuple[float, float, float]:
    """The mean of the parts' trimmed means, its standard error, and its degrees of freedom."""
    means, variances, freedoms = zip(*(_trimmed(part) for part in parts), strict=True)
    total = sum(variances)
    if total == 0.0:
        return _mean(means), 0.0, float(sum(freedoms))
    freedom = total**2 / sum(
        variance**2 / freedom for variance, freedom in zip(variances, freedoms, strict=True)
    )
    return _mean(means), math.sqrt(total) / len(parts), freedom


def _trimmed(values: FloatArray) -> tuple[float, float, float]:
    """A trimmed mean, its variance and its degrees of freedom."""
    count = len(values)
    cut = int(TRIMMED * count)
    ordered = np.sort(values)
    kept = ordered[cut : count - cut]
    low, high = float(kept[0]), float(kept[-1])
    winsorized = np.clip(values, low, high)
    spread = float(winsorized.var(ddof=1))
    variance = spread * (count - 1) / (len(kept) * (len(kept) - 1))
    return float(kept.mean()), variance * _inflation(winsorized), float(len(kept) - 1)


def _inflation(values: FloatArray) -> float:
    """By how much the variance of a mean of these exceeds that of independent ones: as in a process
    that remembers its last value. Never below one."""
    deviations = values - values.mean()
    squares = float((deviations**2).sum())
    if squares == 0.0:
        return 1.0
    memory = float((deviations[1:] * deviations[:-1]).sum()) / squares
    memory = min(max(memory, 0.0), 0.9)
    return (1.0 + memory) / (1.0 - memory)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


# The speed-up by the jobs' own step times.


def speedup_interval(
    baseline: ArmSpeed, candidate: ArmSpeed, confidence: float
) -> tuple[Interval, bool]:
    """The ratio of samples per second with one-sided bounds; True when it covers these runs only.
    Printed speeds may be off by half of their last digit either way."""
    if min(len(baseline.rates), len(candidate.rates)) < 2:
        return _bootstrap_over_steps(baseline, candidate, confidence), True
    before, after = np.log(baseline.rates), np.log(candidate.rates)
    estimate = float(after.mean() - before.mean())
    half_width = _welch_half_width(
        [float(before.var(ddof=1)), float(after.var(ddof=1))], [len(before), len(after)], confidence
    )
    half_width += baseline.rounding + candidate.rounding
    bounds = (estimate, estimate - half_width, estimate + half_width)
    return Interval(*(math.exp(min(bound, MOST_LOGARITHM)) for bound in bounds)), False


def _welch_half_width(
    variances: Sequence[float], counts: Sequence[int], confidence: float
) -> float:
    parts = [variance / count for variance, count in zip(variances, counts, strict=True)]
    if not sum(parts):
        return 0.0
    return float(stdtrit(welch_freedom(parts, counts), confidence)) * math.sqrt(sum(parts))


def _bootstrap_over_steps(baseline: ArmSpeed, candidate: ArmSpeed, confidence: float) -> Interval:
    # A fixed generator: the same evidence must give the same verdict.
    generator = np.random.default_rng(0)
    before, after = (
        np.mean([np.log(_resampled_means(it, generator)) for it in arm.runs.steady_seconds], axis=0)
        for arm in (baseline, candidate)
        if arm.runs is not None
    )
    ratios = np.exp(before - after) * (candidate.batch_size / baseline.batch_size)
    lower, upper = np.quantile(ratios, [1.0 - confidence, confidence])
    estimate = candidate.rate / baseline.rate
    return Interval(estimate, min(float(lower), estimate), max(float(upper), estimate))


def _resampled_means(seconds: FloatArray, generator: np.random.Generator) -> FloatArray:
    length = math.ceil(len(seconds) ** (1 / 3))
    sums = np.concatenate([[0.0], np.cumsum(seconds)])
    block_means = (sums[length:] - sums[:-length]) / length
    blocks = math.ceil(len(seconds) / length)
    starts = generator.integers(0, len(block_means), (RESAMPLES, blocks))
    means: FloatArray = block_means[starts].mean(axis=1)
    return means


def seeds_to_settle(
    baseline: ArmSpeed, candidate: ArmSpeed, required: float, confidence: float
) -> int | None:
    """Seeds of each arm at which the bounds would lie to one side of `required`, in eight of ten
    experiments, if the estimate and the jobs' spread stay what they are; None where that spread is
    not known, or MOST_SEEDS would not do."""
    logs = [np.log(arm.rates) for arm in (baseline, candidate)]
    if min(map(len, logs)) < 2:
        return None
    variances = [float(rates.var(ddof=1)) for rates in logs]
    distance = abs(math.log(candidate.rate / baseline.rate / required))
    for seeds in range(max(map(len, logs)) + 1, MOST_SEEDS + 1):
        levels = (confidence, POWER)
        if sum(_welch_half_width(variances, [seeds, seeds], it) for it in levels) < distance:
            return seeds
    return None


# What is required, and what it comes to.


@dataclass(frozen=True)
class Repayment:
    """What repays a candidate's compilation, and what it loses between its steps, within a run."""

    steps: int
    """Length of the run, in steps of the candidate."""
    speedup: float | None
    """In the steady state, at which the run ends no later than the baseline's; None when none
    would do, since the lost seconds alone are as many as the baseline's whole run takes."""


def repayment(baseline: ArmSpeed, candidate: ArmSpeed, *, runs: float) -> Repayment | None:
    """What it takes within `runs` times the length of the candidate's runs; None where nobody knows
    what compiling took."""
    if baseline.runs is None or candidate.runs is None:
        return None
    steps = math.ceil(candidate.runs.steps * runs)
    whole = steps * candidate.batch_size / baseline.rate
    lost = _more_compiling(baseline.runs, candidate.runs)
    lost += runs * _more_between(baseline, candidate)
    left = whole - lost
    return Repayment(steps, whole / left if left > 0.0 else None)


def _more_compiling(baseline: Runs, candidate: Runs) -> float:
    """Seconds that the candidate compiles for longer."""
    return max(candidate.compilation.seconds - baseline.compilation.seconds, 0.0)


def _more_between(baseline: ArmSpeed, candidate: ArmSpeed) -> float:
    """Seconds that a run of the candidate spends between its steps more than the baseline does for
    as many examples, beyond what a loaded machine explains."""
    before, after = baseline.runs, candidate.runs
    if before is None or after is None:
        return 0.0
    examples = after.steps * candidate.batch_size
    usual = before.between_seconds * examples / max(before.steps * baseline.batch_size, 1)
    explained = max(BETWEEN_STEPS * examples / baseline.rate, MOST_BETWEEN)
    return max(after.between_seconds - usual - explained, 0.0)


def judge_speed(
    baseline: ArmSpeed | UnknownSpeed,
    candidate: ArmSpeed | UnknownSpeed,
    settings: GateSettings,
    confidence: float,
    pairs: Pairs | None = None,
    *,
    busy_machine: str | None = None,
) -> tuple[SpeedJudgement | None, list[Reason]]:
    """Compare two arms' speeds with what is required; the reasons give the outcome in words.
    `busy_machine` is what the function of that name says of the jobs of both arms."""
    for role, arm in (("baseline", baseline), ("candidate", candidate)):
        if isinstance(arm, UnknownSpeed):
            return None, [_unmeasured(role, arm.why)]
    if isinstance(baseline, UnknownSpeed) or isinstance(candidate, UnknownSpeed):
        raise AssertionError("both were measured")
    pairs = pairs or Pairs()
    by_jobs, one_run = speedup_interval(baseline, candidate, confidence)
    paired = judge_pairs(pairs.jobs, confidence) if pairs.decide else None
    speedup = by_jobs if paired is None else paired.speedup
    one_run = one_run and paired is None
    repaid = repayment(baseline, candidate, runs=settings.repaid_within_runs)
    required, binding = _required(settings, repaid)
    outcome = _outcome(speedup, required)
    # What contradicts what must not depend on how many candidates there are.
    declared = settings.confidence
    disagree = pairs.decide and _apart(
        judge_pairs(pairs.jobs, declared).speedup,
        speedup_interval(baseline, candidate, declared)[0],
    )
    far_apart = abs(math.log(speedup.estimate / by_jobs.estimate)) > math.log(FAR_APART)
    contradicted = disagree and (_outcome(by_jobs, required) is not Outcome.PASS or far_apart)
    if outcome is Outcome.PASS and contradicted:
        outcome = Outcome.INCONCLUSIVE
    if outcome is Outcome.FAIL and speedup.upper >= settings.min_speedup and busy_machine:
        # What compiling takes is timed once in a job, beside whatever else runs then.
        outcome = Outcome.INCONCLUSIVE
    seeds_needed = None
    if outcome is Outcome.INCONCLUSIVE and required is not None and busy_machine is None:
        seeds_needed = (
            seeds_to_settle(baseline, candidate, required, confidence)
            if paired is None
            else jobs_to_settle(pairs.jobs, required, confidence)
        )
    judgement = SpeedJudgement(
        outcome=outcome,
        speedup=speedup,
        min_speedup=settings.min_speedup,
        required_speedup=required,
        conditional_on_run=one_run,
        baseline_samples_per_second=baseline.rate,
        candidate_samples_per_second=candidate.rate,
        advice=_advice(outcome, speedup, binding),
        seeds=min(len(baseline.rates), len(candidate.rates)) if paired is None else paired.jobs,
        seeds_needed=seeds_needed,
        run=_run(baseline, candidate, repaid, speedup.estimate),
        source=SpeedSource.JOBS if paired is None else SpeedSource.PAIRS,
        paired=paired,
        by_jobs=by_jobs,
        disagree=disagree,
        busy_machine=busy_machine,
        binding=binding,
    )
    contradiction = outcome is Outcome.INCONCLUSIVE and contradicted
    reasons = [_reason(judgement, contradiction=contradiction)]
    return judgement, [*reasons, *_beyond_belief(speedup.estimate, baseline, candidate, settings)]


def _required(
    settings: GateSettings, repaid: Repayment | None
) -> tuple[float | None, Literal["min_speedup", "repayment"]]:
    """The speed-up that is required (None: none is enough), and which limit makes it so."""
    minimum = settings.min_speedup
    if repaid is None or (repaid.speedup is not None and repaid.speedup <= minimum):
        return minimum, "min_speedup"
    return repaid.speedup, "repayment"


def _outcome(speedup: Interval, required: float | None) -> Outcome:
    """A candidate passes by its lower bound and fails by its upper one."""
    if required is None or speedup.upper < required * EXACTLY:
        return Outcome.FAIL
    return Outcome.PASS if speedup.lower >= required * EXACTLY else Outcome.INCONCLUSIVE


def _apart(one: Interval, other: Interval) -> bool:
    return one.upper < other.lower or other.upper < one.lower


def _advice(outcome: Outcome, speedup: Interval, binding: str) -> str:
    if outcome is Outcome.PASS:
        return "turn it on"
    if outcome is Outcome.INCONCLUSIVE:
        return "measure again, with more seeds or for longer"
    if speedup.estimate < STAY_OFF_BELOW:
        return "leave it off"
    if binding == "repayment":
        return "such a run is too short to be worth compiling"
    return "leave it off, or accept a lower min_speedup"


def _run(
    baseline: ArmSpeed, candidate: ArmSpeed, repaid: Repayment | None, speedup: float
) -> RunJudgement | None:
    before, after = baseline.runs, candidate.runs
    if before is None or after is None or repaid is None:
        return None
    saved = (1.0 - 1.0 / speedup) / baseline.rate
    lost = _more_compiling(before, after)
    samples = lost / saved if saved > 0.0 else math.inf
    known = math.isfinite(samples)
    return RunJudgement(
        repaid_within_steps=repaid.steps,
        compile_state=after.compilation.state,
        baseline_compile_seconds=before.compilation.seconds,
        candidate_compile_seconds=after.compilation.seconds,
        compile_cold=after.compilation.cold,
        compile_warm=after.compilation.warm,
        candidate_batch_size=candidate.batch_size,
        candidate_steps=after.steps,
        break_even_steps=math.ceil(samples / candidate.batch_size) if known else None,
        break_even_minutes=(
            (before.compilation.seconds + samples / baseline.rate) / 60.0 if known else None
        ),
        train_time_ratio=before.train_seconds / after.train_seconds
        if after.train_seconds
        else None,
        baseline_train_seconds=before.train_seconds,
        candidate_train_seconds=after.train_seconds,
    )


def _beyond_belief(
    speedup: float, baseline: ArmSpeed, candidate: ArmSpeed, settings: GateSettings
) -> list[Reason]:
    # A larger batch alone can be as many times as fast as it is larger.
    larger = max(candidate.batch_size / baseline.batch_size, 1.0)
    if speedup <= settings.max_speedup * larger:
        return []
    sentence = (
        f"Speed: {speedup:,.4g}x is beyond max_speedup = {settings.max_speedup:g}: do both arms "
        "time their steps in seconds, and wait for the device?"
    )
    numbers = {"speedup": speedup, "max_speedup": settings.max_speedup}
    return [failure(Code.SPEED_BEYOND_BELIEF, sentence, **numbers)]


def _unmeasured(role: str, why: str) -> Reason:
    return undecided(Code.SPEED_UNMEASURED, f"Speed was not measured: a job of the {role} {why}.")


def _reason(judgement: SpeedJudgement, *, contradiction: bool) -> Reason:
    speedup, run = judgement.speedup, judgement.run
    code = _code(judgement, contradiction=contradiction)
    sentence = f"Speed: {_shown(speedup)}, {_needs(judgement)}."
    further = {
        Code.SPEED_FASTER: _when_paid_for(run),
        Code.SPEED_DISAGREES: _contradiction(judgement),
        Code.SPEED_UNDECIDED: _what_decides(judgement),
        Code.SPEED_BELOW_MINIMUM: (
            f"min_speedup = {math.floor(speedup.lower * 100) / 100:.2f} would have passed."
            if speedup.lower >= STAY_OFF_BELOW
            else ""
        ),
        Code.SPEED_NOT_REPAID: _what_repays(judgement),
    }[code]
    numbers: dict[str, Number] = {
        "speedup": speedup.estimate,
        "lower": speedup.lower,
        "upper": speedup.upper,
        "min_speedup": judgement.min_speedup,
        "required_speedup": judgement.required_speedup,
        "binding": judgement.binding,
        "break_even_steps": None if run is None else run.break_even_steps,
        "seeds_needed": judgement.seeds_needed,
        "source": judgement.source,
    }
    return Reason(code, judgement.outcome, f"{sentence} {further}".rstrip(), numbers)


def _code(judgement: SpeedJudgement, *, contradiction: bool) -> Code:
    if judgement.outcome is Outcome.PASS:
        return Code.SPEED_FASTER
    if judgement.outcome is Outcome.INCONCLUSIVE:
        return Code.SPEED_DISAGREES if contradiction else Code.SPEED_UNDECIDED
    # Below the minimum, too, it would not pass in a longer run either.
    below = judgement.speedup.upper < judgement.min_speedup * EXACTLY
    return Code.SPEED_BELOW_MINIMUM if below else Code.SPEED_NOT_REPAID


def _shown(speedup: Interval) -> str:
    return f"{speedup.estimate:.2f}x ({speedup.lower:.2f} to {speedup.upper:.2f})"


def _needs(judgement: SpeedJudgement) -> str:
    """The limit that is binding."""
    required, run = judgement.required_speedup, judgement.run
    if judgement.binding != "repayment" or run is None:
        return f"needs {judgement.min_speedup:.2f}"
    limit = "no speed-up is enough" if required is None else f"needs {required:.2f}"
    return (
        f"{limit} to repay {run.candidate_compile_seconds:.1f} s of {run.compile_state} "
        f"compilation and time between steps within {run.repaid_within_steps:,} steps"
    )


def _what_repays(judgement: SpeedJudgement) -> str:
    """The value that would have passed, where a longer run repays."""
    run = judgement.run
    if run is None or not run.break_even_steps or judgement.speedup.lower <= 1.0:
        return ""
    times = run.break_even_steps / max(run.candidate_steps, 1)
    if times <= 1.0:
        return "See what the candidate does between its steps."
    return (
        f"Compilation breaks even after {run.break_even_steps:,} steps; these runs have "
        f"{run.candidate_steps:,}. If real runs are longer, set `repaid_within_runs`."
    )


def _what_decides(judgement: SpeedJudgement) -> str:
    """The cheapest thing that would decide."""
    if judgement.busy_machine is not None:
        return f"The machine was busy: {judgement.busy_machine}. Run again when it is quiet."
    if judgement.conditional_on_run:
        return "One job shows no spread between jobs: declare two `seeds` or more."
    if judgement.seeds_needed is not None:
        more = counted(judgement.seeds_needed - judgement.seeds, "more seed")
        return f"About {more} would decide."
    return "The speed-up is too close to the limit for more seeds to decide."


def _contradiction(judgement: SpeedJudgement) -> str:
    jobs = judgement.by_jobs or judgement.speedup
    return (
        f"The jobs' own step times give {_shown(jobs)}: something besides the steps (loader, "
        "evaluation, shapes) differs. Run again on a quieter machine."
    )


def _when_paid_for(run: RunJudgement | None) -> str:
    """A warning where faster steps do not make runs like these end earlier."""
    needed = None if run is None else run.break_even_steps
    if run is None or needed is None or needed <= run.candidate_steps:
        return ""
    return (
        f"Compilation breaks even after {needed:,} steps; these runs have {run.candidate_steps:,}."
    )


# What is to be known of the speed, and decides nothing.


def about_speed(judgement: SpeedJudgement, pairs: Pairs) -> list[Note]:
    """Why blocks were not alternated, and where they contradict the jobs' own step times."""
    notes = []
    if judgement.disagree and judgement.source is SpeedSource.PAIRS and judgement.by_jobs:
        jobs = _shown(judgement.by_jobs)
        sentence = f"The jobs' own step times give {jobs}; alternating blocks decided."
        notes.append(Note(Code.SPEED_NOT_PAIRED, sentence))
    for why in pairs.obstacles:
        sentence = f"Steps of both arms were not timed in alternating blocks: {why}."
        notes.append(Note(Code.SPEED_NOT_PAIRED, sentence))
    if judgement.source is SpeedSource.JOBS and len(pairs.jobs) == 1:
        ratio = steps_in_turns(pairs.jobs[0])
        sentence = (
            f"Alternating blocks give {ratio:.2f}x in a single job; two are needed to use it."
        )
        notes.append(Note(Code.SPEED_NOT_PAIRED, sentence, {"speedup": ratio}))
    return notes


def busy_machine(records: Sequence[EvidenceRecord]) -> str | None:
    """What else the machines of these jobs did, in words that follow "The machine was busy: "; None
    where they were quiet, or the jobs do not tell.

    Half of the jobs or more must have met it: a single one does not widen an interval of them all.
    """
    checkups = [record.evidence.checkup for record in records]
    loads = [found for found in map(_load, checkups) if found is not None]
    steals = [found for each in checkups if (found := _number(each, "steal")) is not None]
    said = []
    load, processors = statistics.median_low(loads) if loads else (0.0, 1.0)
    if load > MOST_LOAD * processors:
        said.append(f"{load:.1f} processes wanted to run on {_counted(processors)}")
    steal = statistics.median_low(steals) if steals else 0.0
    if steal > MOST_STEAL:
        said.append(f"its hypervisor gave {steal:.0%} of the processors' time to others")
    return " and ".join(said) or None


def _load(checkup: Mapping[str, Any]) -> tuple[float, float] | None:
    """Processes that wanted to run, and processors."""
    load, processors = _number(checkup, "load"), _number(checkup, "processors")
    return None if load is None or not processors else (load, processors)


def _number(checkup: Mapping[str, Any], name: str) -> float | None:
    """A finite number that is not negative; evidence may hold anything under this name."""
    value = checkup.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < math.inf else None


def _counted(processors: float) -> str:
    return "one processor" if processors == 1 else f"{processors:g} processors"


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
    places = ", ".join(clipped(where, 200) for where in each.where[:3])
    at = f" at {places}" if places else ""
    why = f": {clipped(each.reason, 200)}" if each.reason else ""
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
    rule = clipped(each.rule, 200)
    return f"{told}. Rule {rule} of `compilegate check` says more: docs/rules/{rule}.md."


def _times(count: float) -> str:
    return "once" if count < 1.5 else f"{count:.0f} times"


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
