"""Speed: does a candidate train faster than the baseline, by enough, and within a run? Pure.

**Jobs.** The speed of a job is the total over its steady steps, not the median, because stalls and
slow steps are paid for too. Jobs are the unit of replication: steps of one job share its machine,
and their number says nothing about the next machine. So the interval is Welch's, over the
logarithms of the jobs' speeds. With one job in an arm there is no such spread, and a moving-block
bootstrap over the steps (Kuensch 1989) stands in: it covers these runs only.

**Alternating blocks.** A job's ratio is the 20% trimmed mean of its pairs' logarithms, taken apart
for the pairs that the baseline began and those that it ended, so that a drift within pairs cancels.
The speed-up of whole steps is (baseline + rest) / (candidate + rest), where the rest is what a
training step does besides. It has bounds, since it compares what was timed at different times: the
training is cut into stretches as long as the probe, and the 90% quantile of their means less the
probe's median is its upper bound, the 10% quantile the lower. Where batch sizes differ, the
baseline's rest lies between the candidate's for each step and for each sample. The bounds of the
speed-up are Student's over the jobs' logarithms, and never nearer than what each job shows of
itself: the bound of its rest, and the error of its trimmed mean (Tukey & McLaughlin, Sankhya A
1963), widened by the autocorrelation of consecutive pairs.

Where blocks decide and contradict the jobs' own step times, something may slow this training that
its steps taken again do not show: nothing passes that would not by both.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from compilegate.job.contract import SPEED_METRIC
from compilegate.job.evidence import (
    Evidence,
    EvidenceRecord,
    FloatArray,
    PairedBlocks,
    PairedSpeedRecord,
    Slowdown,
)
from compilegate.job.evidence.record import RULES, SLOWDOWN_KINDS
from compilegate.job.evidence.steady import (
    LEAST_SHARE,
    added_seconds,
    are_durations,
    steady_seconds,
)

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
"""Tolerance for a ratio that is exactly at its limit."""
STAY_OFF_BELOW = 1.10
"""Speed-up below which a compiler is not worth its risk and upkeep."""
FAR_APART = 2.5
"""Ratio between two measurements of one speed-up that a busy machine does not explain."""
DECIMALS = 9
LEAST_PAIRS = 6
"""Fewest pairs of a job: three that the baseline began and three that it ended."""
LEAST_OF_AN_ORDER = 0.2
"""The share of the pairs that either arm begins; the probe changes the order every time."""
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


# The speed of one arm, by its jobs.


@dataclass(frozen=True)
class Runs:
    """Times of the whole trainings of one arm."""

    steady_seconds: tuple[FloatArray, ...]
    """The steady step times of each replicate."""
    compilation: CompileTimes
    train_seconds: float
    """Mean over the replicates."""
    steps: int
    """Steps of the longest replicate."""
    between_seconds: float = 0.0
    """Seconds in no step, compilation or lost machine: the mean over the replicates."""


@dataclass(frozen=True)
class ArmSpeed:
    """The speed of one arm, by its replicates."""

    batch_size: int
    rates: tuple[float, ...]
    """Steady-state samples per second of each replicate."""
    runs: Runs | None
    """None for jobs with printed metrics alone."""

    @property
    def rate(self) -> float:
        """Samples per second of the arm: the geometric mean, so that ratios are consistent."""
        return math.exp(_mean(np.log(self.rates)))

    @property
    def rounding(self) -> float:
        """Half of the last decimal of printed rates, as a share of the arm's; zero of others."""
        if self.runs is not None:
            return 0.0
        for decimals in range(DECIMALS):
            if all(round(rate, decimals) == rate for rate in self.rates):
                return 0.5 * 10.0**-decimals / self.rate
        return 0.0


@dataclass(frozen=True)
class UnknownSpeed:
    """An arm whose speed is not known."""

    why: str
    """The reason in words, after "a job of the baseline"."""


def measure_arm(batch_size: int, records: Sequence[EvidenceRecord]) -> ArmSpeed | UnknownSpeed:
    """The speed of one arm by its records; `batch_size` is that of a step, of all processes."""
    trainings = [
        (record.evidence, record.evidence.speed, record.steps)
        for record in records
        if record.evidence.speed is not None and record.steps is not None
    ]
    if not trainings or len(trainings) < len(records):
        return _reported_speed(batch_size, records)
    seconds = tuple(steady_seconds(evidence, steps) for evidence, _, steps in trainings)
    lengths = [len(steps.loss) for _, _, steps in trainings]
    if min(map(len, seconds)) < MIN_STEADY_STEPS:
        return UnknownSpeed(f"has fewer than {MIN_STEADY_STEPS} steady steps; train longer")
    if any(len(it) < LEAST_SHARE * steps for it, steps in zip(seconds, lengths, strict=True)):
        return UnknownSpeed("was still warming up in more than half of its steps; train longer")
    between = [
        max(speed.train_seconds - float(it.seconds.sum()) - outside_of_steps(evidence, it), 0.0)
        for evidence, speed, it in trainings
    ]
    return ArmSpeed(
        batch_size=batch_size,
        rates=tuple(batch_size * len(each) / float(each.sum()) for each in seconds),
        runs=Runs(
            steady_seconds=seconds,
            compilation=compile_times(records),
            train_seconds=_mean([speed.train_seconds for _, speed, _ in trainings]),
            steps=max(lengths),
            between_seconds=_mean(between),
        ),
    )


def _reported_speed(batch_size: int, records: Sequence[EvidenceRecord]) -> ArmSpeed | UnknownSpeed:
    found = [record.evidence.metrics.get(SPEED_METRIC) for record in records]
    rates = tuple(rate for rate in found if rate is not None)
    # With one job there are no steps to show how sure its speed is.
    if len(rates) < max(len(records), 2):
        return UnknownSpeed("did not report its speed (`speed_metric`)")
    return ArmSpeed(batch_size, rates, runs=None)


@dataclass(frozen=True)
class CompileTimes:
    """Cold and warm compile times of one arm; None for a state that was not measured."""

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
        paid = self.warm or self.cold
        return 0.0 if paid is None else paid.seconds


def compile_times(records: Sequence[EvidenceRecord]) -> CompileTimes:
    """The compile times of an arm's replicates, which are all measured.

    A job without a cache record started cold. Where all were warm, the cold figures are those
    that came with the cache.
    """
    cold: list[tuple[float, float]] = []
    warm: list[tuple[float, float]] = []
    earlier: list[tuple[float, float]] = []
    for record in records:
        cache = record.evidence.compile_cache
        is_warm = cache is not None and cache.state == CompileState.WARM
        if record.steps is not None:
            first_step = float(record.steps.seconds[0])
            (warm if is_warm else cold).append((compile_seconds(record), first_step))
        if (
            cache is not None
            and cache.cold_compile_seconds is not None
            and cache.cold_first_step_seconds is not None
        ):
            earlier.append((cache.cold_compile_seconds, cache.cold_first_step_seconds))
    if cold:
        return CompileTimes(_compile_time(cold), _compile_time(warm))
    return CompileTimes(_compile_time(earlier, earlier=True), _compile_time(warm))


def _compile_time(
    measured: Sequence[tuple[float, float]], *, earlier: bool = False
) -> CompileTime | None:
    """The means of (compile seconds, first step) of several jobs."""
    if not measured:
        return None
    seconds, first_steps = zip(*measured, strict=True)
    return CompileTime(_mean(seconds), _mean(first_steps), jobs=len(measured), earlier=earlier)


def compile_seconds(record: EvidenceRecord) -> float:
    """What compiling took in this job: what it says itself, or what its steps show if that is more.

    A job that left its `compile_seconds` at zero beside a first step of 300 s has compiled for
    300 s. An eager job compiles nothing: its first steps are slow for other reasons.
    """
    compiler = record.evidence.compiler
    if compiler is None:
        return 0.0
    shown = added_seconds(record.evidence, record.steps) if record.steps and compiler.ran else 0.0
    return shown if shown > NEARLY * compiler.compile_seconds else compiler.compile_seconds


def _mean(values: Sequence[float] | FloatArray) -> float:
    return float(np.mean(values))


# Alternating blocks.


@dataclass(frozen=True)
class PairedJob:
    """The alternating blocks of one job of the candidate. Speed-ups are logarithms."""

    speedups: tuple[float, float, float]
    """The lowest, the likely and the highest: by what is known of the rest of a step."""
    alone: float
    """The speed-up of what the probe takes, without the rest."""
    variances: tuple[float, ...]
    """Variances for the pairs that the baseline began and for those that it ended; their sum is the
    squared standard error of `alone`."""
    counts: tuple[int, ...]
    """Pairs behind each variance, after trimming."""
    rest: float
    """The likely rest, as a share of the candidate's step in the probe."""
    pairs: int
    baseline_step_seconds: float
    candidate_step_seconds: float
    """The medians in the probe."""
    probe_seconds: float


@dataclass(frozen=True)
class Pairs:
    """The alternating blocks of a candidate's jobs."""

    jobs: tuple[PairedJob, ...] = ()
    obstacles: tuple[str, ...] = ()
    """Why a job has no pairs that count, in a sentence without its full stop; empty for jobs that
    were not configured to alternate."""


def paired_jobs(
    records: Sequence[EvidenceRecord], baseline: ArmDeclaration, candidate: ArmDeclaration
) -> Pairs:
    """The pairs that count of a candidate's records, and why others do not."""
    jobs: list[PairedJob] = []
    obstacles: list[str] = []
    for record in records:
        recorded, blocks = record.evidence.paired_speed, record.paired
        if recorded is None or record.steps is None:
            continue
        steady = steady_seconds(record.evidence, record.steps)
        if len(steady) < MIN_STEADY_STEPS:
            continue  # then the speed of its arm is not known at all
        if blocks is None:
            obstacles.append(clipped(recorded.obstacle or "the record holds no pairs").rstrip("."))
        elif why := _other_arms(recorded, baseline, candidate) or _no_times(blocks, steady):
            obstacles.append(why)
        else:
            batch_ratio = candidate.batch_size / baseline.batch_size
            jobs.append(
                paired_job(blocks, steady, recorded.steps_per_block, batch_ratio, recorded.seconds)
            )
    return Pairs(tuple(jobs), tuple(dict.fromkeys(obstacles)))


def _other_arms(
    recorded: PairedSpeedRecord, baseline: ArmDeclaration, candidate: ArmDeclaration
) -> str | None:
    """Why the timed arms are not the two that are compared."""
    for what in ("instance_type", "image", "world_size"):
        before, after = getattr(baseline, what), getattr(candidate, what)
        if before != after:
            return (
                f"the arms differ in {what} ({before or 'the default'} and "
                f"{after or 'the default'}), and one process has one of the two"
            )
    for what, found, declared in (
        ("the baseline's compiler", recorded.baseline_compiler, baseline.compiler),
        ("the baseline's batch size", recorded.baseline_batch_size, baseline.batch_size),
        ("the candidate's batch size", recorded.candidate_batch_size, candidate.batch_size),
    ):
        if found != declared:
            there = clipped(str(found), 60)
            return f"{what} was {there} there, and the workload declares {declared}"
    return None


def _no_times(blocks: PairedBlocks, steady: FloatArray) -> str | None:
    """Why these pairs show nothing. A step of the probe leaves out what a training step
    does besides, and takes no other order of time."""
    count = len(blocks.baseline_seconds)
    if count < LEAST_PAIRS:
        return f"there are {count} pairs, and {LEAST_PAIRS} are the least"
    if not (are_durations(blocks.baseline_seconds) & are_durations(blocks.candidate_seconds)).all():
        return "one of its step times is no duration"
    if not LEAST_OF_AN_ORDER <= blocks.baseline_first.mean() <= 1.0 - LEAST_OF_AN_ORDER:
        return "one arm almost always ran first, which biases the timing"
    times = float(np.median(blocks.candidate_seconds)) / float(np.median(steady))
    if not 1.0 / MOST_TIMES_A_STEP <= times <= MOST_TIMES_A_STEP:
        return "its steps take quite other times there than in training; is one in another unit"
    return None


def paired_job(
    blocks: PairedBlocks,
    steady: FloatArray,
    steps_per_block: int,
    batch_ratio: float,
    probe_seconds: float,
) -> PairedJob:
    """What one job's blocks show beside its own training's `steady` step times. `batch_ratio` is
    the samples of a step of the candidate's over those of the baseline's."""
    logs: FloatArray = np.log(blocks.baseline_seconds / blocks.candidate_seconds)
    parts = [_trimmed(logs[blocks.baseline_first]), _trimmed(logs[~blocks.baseline_first])]
    means, variances, counts = zip(*parts, strict=True)
    step = float(np.median(blocks.candidate_seconds))
    trained = _training_steps(blocks, steady, steps_per_block)
    rests = [max(seconds / step - 1.0, 0.0) for seconds in trained]
    # In units of the candidate's step. The rest of the baseline's step is as long as the
    # candidate's, or as long for each sample.
    before, by_step, by_sample = math.exp(_mean(means)), 1.0, 1.0 / batch_ratio

    def of_whole_steps(rest: float, multiple: float) -> float:
        return math.log((before + rest * multiple) / (1.0 + rest) * batch_ratio)

    possible = [of_whole_steps(rest, it) for rest in rests for it in (by_step, by_sample)]
    _, usual, _ = rests
    return PairedJob(
        speedups=(min(possible), of_whole_steps(usual, by_sample), max(possible)),
        alone=math.log(before * batch_ratio),
        variances=tuple(variance / len(parts) ** 2 for variance in variances),
        counts=counts,
        rest=usual,
        pairs=len(logs),
        baseline_step_seconds=float(np.median(blocks.baseline_seconds)),
        candidate_step_seconds=step,
        probe_seconds=probe_seconds,
    )


def _training_steps(
    blocks: PairedBlocks, steady: FloatArray, steps_per_block: int
) -> tuple[float, float, float]:
    """Seconds of a training's step at its quick times, usually, and at its slow times: over
    stretches that took about as long as the probe's blocks did in all, three or more."""
    probe = float((blocks.baseline_seconds + blocks.candidate_seconds).sum()) * steps_per_block
    count = int(np.clip(round(float(steady.sum()) / max(probe, 1e-9)), 3, len(steady)))
    starts = np.arange(count) * len(steady) // count
    means = np.add.reduceat(steady, starts) / np.diff(starts, append=len(steady))
    # Of few stretches the outermost, and nothing in between.
    quick = np.quantile(means, QUICK_TIMES, method="lower")
    slow = np.quantile(means, SLOW_TIMES, method="higher")
    return float(quick), float(steady.mean()), float(slow)


def _trimmed(values: FloatArray) -> tuple[float, float, int]:
    """A trimmed mean, its variance, and how many values it is over."""
    count = len(values)
    cut = int(TRIMMED * count)
    middle = np.sort(values)[cut : count - cut]
    winsorized = np.clip(values, middle[0], middle[-1])
    spread = float(winsorized.var(ddof=1))
    variance = spread * (count - 1) / (len(middle) * (len(middle) - 1))
    return float(middle.mean()), variance * _inflation(winsorized), len(middle)


def _inflation(values: FloatArray) -> float:
    """Variance inflation of a mean by autocorrelation at lag one (an AR(1) process); at least 1."""
    deviations = values - values.mean()
    squares = float((deviations**2).sum())
    if squares == 0.0:
        return 1.0
    memory = float((deviations[1:] * deviations[:-1]).sum()) / squares
    memory = min(max(memory, 0.0), 0.9)
    return (1.0 + memory) / (1.0 - memory)


def judge_pairs(jobs: Sequence[PairedJob], confidence: float) -> PairedJudgement:
    """The speed-up by two jobs or more, with one-sided bounds at this confidence."""
    lowest, likely, highest = np.array([job.speedups for job in jobs]).T
    estimate, count = _mean(likely), len(jobs)
    by_jobs = _half_width([float(likely.var(ddof=1)) / count], [count], confidence)
    variances = [variance for job in jobs for variance in job.variances]
    counts = [pairs for job in jobs for pairs in job.counts]
    by_pairs = _half_width(variances, counts, confidence) / count
    below = max(by_jobs, estimate - _mean(lowest) + by_pairs)
    above = max(by_jobs, _mean(highest) - estimate + by_pairs)
    return PairedJudgement(
        speedup=_from_logarithms(estimate, below, above),
        jobs=count,
        pairs=sum(job.pairs for job in jobs),
        steps_alone=math.exp(_mean([job.alone for job in jobs])),
        rest_share=_mean([job.rest / (1.0 + job.rest) for job in jobs]),
        baseline_step_seconds=_mean([job.baseline_step_seconds for job in jobs]),
        candidate_step_seconds=_mean([job.candidate_step_seconds for job in jobs]),
        probe_seconds=sum(job.probe_seconds for job in jobs),
    )


def _half_width(variances: Sequence[float], counts: Sequence[int], confidence: float) -> float:
    """Welch's, for a sum whose parts have these squared standard errors, by so many values each."""
    total = sum(variances)
    if total == 0.0:
        return 0.0
    return float(stdtrit(welch_freedom(variances, counts), confidence)) * math.sqrt(total)


def _from_logarithms(estimate: float, below: float, above: float) -> Interval:
    bounds = (estimate, estimate - below, estimate + above)
    return Interval(*(math.exp(min(bound, MOST_LOGARITHM)) for bound in bounds))


# The speed-up by the jobs' own step times.


def speedup_interval(
    baseline: ArmSpeed, candidate: ArmSpeed, confidence: float
) -> tuple[Interval, bool]:
    """The ratio of samples per second with one-sided bounds; True when it covers these runs only.
    Printed speeds may be off by half of their last digit either way."""
    counts = [len(arm.rates) for arm in (baseline, candidate)]
    if min(counts) < 2:
        return _bootstrap_over_steps(baseline, candidate, confidence), True
    half_width = _half_width_by_jobs(baseline, candidate, counts, confidence)
    half_width += baseline.rounding + candidate.rounding
    estimate = math.log(candidate.rate / baseline.rate)
    return _from_logarithms(estimate, half_width, half_width), False


def _half_width_by_jobs(
    baseline: ArmSpeed, candidate: ArmSpeed, counts: Sequence[int], confidence: float
) -> float:
    """Half width for `counts` jobs of each arm, if they spread as these do."""
    spreads = [float(np.log(arm.rates).var(ddof=1)) for arm in (baseline, candidate)]
    variances = [spread / count for spread, count in zip(spreads, counts, strict=True)]
    return _half_width(variances, counts, confidence)


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
    return np.asarray(block_means[starts].mean(axis=1))


# The number of jobs that would settle it.


def seeds_to_settle(
    baseline: ArmSpeed, candidate: ArmSpeed, required: float, confidence: float
) -> int | None:
    """Seeds of each arm at which the bounds would lie to one side of `required`, in eight of ten
    experiments, if the estimate and the jobs' spread stay what they are; None where that spread is
    not known, or MOST_SEEDS would not do."""
    counts = [len(arm.rates) for arm in (baseline, candidate)]
    if min(counts) < 2:
        return None
    distance = abs(math.log(candidate.rate / baseline.rate / required))
    for seeds in range(max(counts) + 1, MOST_SEEDS + 1):
        more = [seeds, seeds]
        half_width = _half_width_by_jobs(baseline, candidate, more, confidence)
        if half_width + _half_width_by_jobs(baseline, candidate, more, POWER) < distance:
            return seeds
    return None


def jobs_to_settle(jobs: Sequence[PairedJob], required: float, confidence: float) -> int | None:
    """The same of jobs with pairs: the bounds of the rest do not shrink."""
    lowest, likely, highest = np.array([job.speedups for job in jobs]).T
    distance = _mean(likely) - math.log(required)
    shift = _mean(likely - lowest) if distance > 0 else _mean(highest - likely)
    by_pairs = math.sqrt(_mean([sum(job.variances) for job in jobs]))
    by_jobs = float(likely.std(ddof=1))
    for count in range(len(jobs) + 1, MOST_SEEDS + 1):
        certain, planned = stdtrit(count - 1, [confidence, POWER]) / math.sqrt(count)
        half_width = max(certain * by_jobs, shift + certain * by_pairs)
        if half_width + planned * max(by_jobs, by_pairs) < abs(distance):
            return count
    return None


# The requirement and the judgement.


def repaying_speedup(baseline: ArmSpeed, candidate: ArmSpeed, *, runs: float) -> float:
    """The speed-up in the steady state at which a run ends no later than the baseline's, within
    `runs` times the length of the candidate's runs.

    A run of n samples takes n / rate and the arm's own seconds outside of steps. Infinite where
    these alone are as many as the baseline's whole run takes; 1 where nobody knows them.
    """
    before, after = baseline.runs, candidate.runs
    if before is None or after is None:
        return 1.0
    whole = math.ceil(after.steps * runs) * candidate.batch_size / baseline.rate
    # Between its steps, more than the baseline does for as many examples, and than a loaded machine
    # explains.
    examples = after.steps * candidate.batch_size
    usual = before.between_seconds * examples / (before.steps * baseline.batch_size)
    explained = max(BETWEEN_STEPS * examples / baseline.rate, MOST_BETWEEN)
    lost = runs * max(after.between_seconds - usual - explained, 0.0)
    left = whole - lost - _more_compiling(before, after)
    return whole / left if left > 0.0 else math.inf


def _more_compiling(baseline: Runs, candidate: Runs) -> float:
    """Seconds that the candidate compiles for longer."""
    return max(candidate.compilation.seconds - baseline.compilation.seconds, 0.0)


def judge_speed(
    baseline: ArmSpeed | UnknownSpeed,
    candidate: ArmSpeed | UnknownSpeed,
    settings: GateSettings,
    confidence: float,
    pairs: Pairs,
    *,
    busy_machine: str | None,
) -> tuple[SpeedJudgement | None, list[Reason]]:
    """Compare two arms' speeds with what is required; the reasons give the outcome in words.
    `busy_machine` is what the function of that name says of the jobs of both arms."""
    if isinstance(baseline, UnknownSpeed):
        return None, [_unmeasured("baseline", baseline.why)]
    if isinstance(candidate, UnknownSpeed):
        return None, [_unmeasured("candidate", candidate.why)]
    by_jobs, one_run = speedup_interval(baseline, candidate, confidence)
    paired = judge_pairs(pairs.jobs, confidence) if len(pairs.jobs) >= LEAST_JOBS else None
    speedup = by_jobs if paired is None else paired.speedup
    repaying = repaying_speedup(baseline, candidate, runs=settings.repaid_within_runs)
    required = max(settings.min_speedup, repaying)
    outcome = _outcome(speedup, required)
    # What contradicts what must not depend on how many candidates there are.
    declared = settings.confidence
    disagree = paired is not None and _apart(
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
    if outcome is Outcome.INCONCLUSIVE and busy_machine is None:
        seeds_needed = (
            seeds_to_settle(baseline, candidate, required, confidence)
            if paired is None
            else jobs_to_settle(pairs.jobs, required, confidence)
        )
    judgement = SpeedJudgement(
        outcome=outcome,
        speedup=speedup,
        min_speedup=settings.min_speedup,
        required_speedup=required if math.isfinite(required) else None,
        conditional_on_run=one_run and paired is None,
        baseline_samples_per_second=baseline.rate,
        candidate_samples_per_second=candidate.rate,
        advice=_advice(outcome, speedup, repays=repaying <= settings.min_speedup),
        seeds=min(len(baseline.rates), len(candidate.rates)) if paired is None else paired.jobs,
        seeds_needed=seeds_needed,
        run=_run(baseline, candidate, settings, speedup.estimate),
        source=SpeedSource.JOBS if paired is None else SpeedSource.PAIRS,
        paired=paired,
        by_jobs=by_jobs,
        disagree=disagree,
        busy_machine=busy_machine,
        binding="repayment" if repaying > settings.min_speedup else "min_speedup",
    )
    reason = _reason(judgement, contradicted=contradicted)
    return judgement, [reason, *_beyond_belief(speedup.estimate, baseline, candidate, settings)]


def _outcome(speedup: Interval, required: float) -> Outcome:
    """A candidate passes by its lower bound and fails by its upper one."""
    if speedup.upper < required * EXACTLY:
        return Outcome.FAIL
    return Outcome.PASS if speedup.lower >= required * EXACTLY else Outcome.INCONCLUSIVE


def _apart(one: Interval, other: Interval) -> bool:
    return one.upper < other.lower or other.upper < one.lower


def _advice(outcome: Outcome, speedup: Interval, *, repays: bool) -> str:
    if outcome is Outcome.PASS:
        return "turn it on"
    if outcome is Outcome.INCONCLUSIVE:
        return "measure again, with more seeds or for longer"
    if speedup.estimate < STAY_OFF_BELOW:
        return "leave it off"
    if repays:
        return "leave it off, or accept a lower min_speedup"
    return "such a run is too short to be worth compiling"


def _run(
    baseline: ArmSpeed, candidate: ArmSpeed, settings: GateSettings, speedup: float
) -> RunJudgement | None:
    before, after = baseline.runs, candidate.runs
    if before is None or after is None:
        return None
    saved = (1.0 - 1.0 / speedup) / baseline.rate
    samples = _more_compiling(before, after) / saved if saved > 0.0 else math.inf
    known = math.isfinite(samples)
    return RunJudgement(
        repaid_within_steps=math.ceil(after.steps * settings.repaid_within_runs),
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
        train_time_ratio=before.train_seconds / after.train_seconds,
        baseline_train_seconds=before.train_seconds,
        candidate_train_seconds=after.train_seconds,
    )


# The judgement in words.


def _unmeasured(role: str, why: str) -> Reason:
    return undecided(Code.SPEED_UNMEASURED, f"Speed was not measured: a job of the {role} {why}.")


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


def _reason(judgement: SpeedJudgement, *, contradicted: bool) -> Reason:
    speedup, run = judgement.speedup, judgement.run
    code, further = _code(judgement, contradicted=contradicted)
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
    sentence = f"Speed: {_shown(speedup)}, {_needs(judgement)}. {further}".rstrip()
    return Reason(code, judgement.outcome, sentence, numbers)


def _code(judgement: SpeedJudgement, *, contradicted: bool) -> tuple[Code, str]:
    """The code, and what else there is to say."""
    speedup = judgement.speedup
    if judgement.outcome is Outcome.PASS:
        return Code.SPEED_FASTER, _break_even(judgement.run)
    if judgement.outcome is Outcome.INCONCLUSIVE and contradicted:
        return Code.SPEED_DISAGREES, (
            f"The jobs' own step times give {_shown(judgement.by_jobs or speedup)}: something "
            "besides the steps (loader, evaluation, shapes) differs. Run again on a quieter "
            "machine."
        )
    if judgement.outcome is Outcome.INCONCLUSIVE:
        return Code.SPEED_UNDECIDED, _what_decides(judgement)
    # Below the minimum, too, it would not pass in a longer run either.
    if speedup.upper >= judgement.min_speedup * EXACTLY:
        return Code.SPEED_NOT_REPAID, _what_repays(judgement)
    if speedup.lower < STAY_OFF_BELOW:
        return Code.SPEED_BELOW_MINIMUM, ""
    passing = math.floor(speedup.lower * 100) / 100
    return Code.SPEED_BELOW_MINIMUM, f"min_speedup = {passing:.2f} would have passed."


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
    late = _break_even(run)
    if not late:
        return "See what the candidate does between its steps."
    return f"{late} If real runs are longer, set `repaid_within_runs`."


def _break_even(run: RunJudgement | None) -> str:
    """When compilation breaks even, where that is after the end of such runs."""
    needed = None if run is None else run.break_even_steps
    if run is None or needed is None or needed <= run.candidate_steps:
        return ""
    return (
        f"Compilation breaks even after {needed:,} steps; these runs have {run.candidate_steps:,}."
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


# Notes on the speed.


def about_speed(judgement: SpeedJudgement, pairs: Pairs) -> list[Note]:
    """Why blocks were not alternated, and where they contradict the jobs' own step times."""
    notes = []
    if judgement.disagree and judgement.by_jobs is not None:
        jobs = _shown(judgement.by_jobs)
        sentence = f"The jobs' own step times give {jobs}; alternating blocks decided."
        notes.append(Note(Code.SPEED_NOT_PAIRED, sentence))
    for why in pairs.obstacles:
        sentence = f"Steps of both arms were not timed in alternating blocks: {why}."
        notes.append(Note(Code.SPEED_NOT_PAIRED, sentence))
    if len(pairs.jobs) == 1:
        _, likely, _ = pairs.jobs[0].speedups
        ratio = math.exp(likely)
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
    loads = [
        (load, processors)
        for each in checkups
        if (load := _number(each, "load")) is not None
        and (processors := _number(each, "processors"))
    ]
    steals = [found for each in checkups if (found := _number(each, "steal")) is not None]
    causes = []
    load, processors = statistics.median_low(loads) if loads else (0.0, 1.0)
    if load > MOST_LOAD * processors:
        on = "one processor" if processors == 1 else f"{processors:g} processors"
        causes.append(f"{load:.1f} processes wanted to run on {on}")
    steal = statistics.median_low(steals) if steals else 0.0
    if steal > MOST_STEAL:
        causes.append(f"its hypervisor gave {steal:.0%} of the processors' time to others")
    return " and ".join(causes) or None


def _number(checkup: Mapping[str, Any], name: str) -> float | None:
    """A finite number that is not negative; evidence may hold anything under this name."""
    value: Any = checkup.get(name)
    return float(value) if type(value) in (int, float) and 0 <= value < math.inf else None


_SLOWED = dict(
    zip(
        SLOWDOWN_KINDS,
        (
            "Its steps wait for data in {share:.0%} of their time, which no compiler shortens",
            "Each step asks {times} for the value of a tensor{at}: a device waits for its next "
            "work there, and XLA ends its graph",
            "Its first steps had {count:.0f} different shapes: a compiler of static shapes "
            "compiles each",
            "torch left its graph {times}{at}{why}",
            "torch compiled a graph again {times}{at}{why}",
        ),
        strict=True,
    )
)


def about_slowdowns(evidences: Sequence[Evidence]) -> list[Note]:
    """A note for each kind, by the first of the arm's jobs that met it; the gravest first."""
    first: dict[str, Slowdown] = {}
    for each in (slowdown for evidence in evidences for slowdown in evidence.hindrances):
        first.setdefault(each.kind, each)
    found = [first[kind] for kind in SLOWDOWN_KINDS if kind in first]
    return [
        Note(Code.SPEED_HINDERED, slowdown_sentence(it), {"count": it.count, "share": it.share})
        for it in found
    ]


def slowdown_sentence(each: Slowdown) -> str:
    """The slowdown, its place and its rule, in two sentences."""
    places = ", ".join(clipped(where, 200) for where in each.where[:3])
    sentence = _SLOWED[each.kind].format(
        count=each.count,
        times="once" if each.count < 1.5 else f"{each.count:.0f} times",
        share=each.share or 0.0,
        at=f" at {places}" if places else "",
        why=f": {clipped(each.reason, 200)}" if each.reason else "",
    )
    rule = RULES[each.kind]
    return f"{sentence}. Rule {rule} of `compilegate check` says more: docs/rules/{rule}.md."
