"""The speed-up by steps that were taken in turns: blocks of the baseline's step and of the
candidate's alternate in one process, after the candidate's training.

Two jobs are timed at different times, beside different neighbours; the ratio of their speeds has
all of that in it. What slows a machine for longer than a block slows both blocks of a pair, so
their ratio does not. Three things stand between the ratio of two blocks and the speed-up of a
training.

**Disturbances within a pair.** A neighbour that comes or goes between the two blocks, or a stall in
one of them, puts a pair far off; it may do so either way. A job's ratio is the 20% trimmed mean of
its pairs' logarithms, taken apart for the pairs that the baseline began and those that it ended, so
that a drift within pairs cancels. The median withstands more, but loses a third of the precision
where nothing is disturbed; the plain mean follows a single stall of a second for as many pairs as
there are. What the trimming leaves out is not lost: a step of the candidate's own that now and then
takes long is in its own step times, and so in the rest, below.

**What the probe leaves out.** It takes forward, backward and update again. A step of the training
has a rest besides: loader, loss, logging. It is what the candidate's own steady steps took more
than its blocks. Both arms have it, so that the speed-up of whole steps is
(baseline + rest) / (candidate + rest). How long the rest is can be told only by comparing what was
timed at different times, so it has bounds as well: the training is cut into stretches as long as
the probe, and the 90% quantile of their means is held against the probe's median for the lower
bound of the speed-up, the 10% quantile for the upper. A probe that met a slow time is then taken
for one of the training's slow times. Where batch sizes differ, the rest of the baseline's step lies
between the candidate's rest for each step and for each sample; the bounds take the worse.

**The next job.** The jobs are the replicates: pairs of one job share its process, its placement in
memory, its machine. So the bounds are Student's over the jobs' logarithms. But two or three jobs
may by chance agree better than they should, and their probes may all have met a slow time. So a
bound is never nearer than what each job shows of itself: the bound of its rest, and the error of
its trimmed mean (Tukey & McLaughlin, "Less vulnerable confidence and significance procedures",
Sankhya A 1963), widened by the autocorrelation of consecutive pairs. To add the two widths instead
of taking the larger would count the rest's uncertainty twice, and leave many undecided that are
clearly fast enough.

`benchmarks/gate/gate_speed.py` measures what this comes to: docs/gate.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import stdtrit

from compilegate.evidence import EvidenceRecord, FloatArray, PairedBlocks, PairedSpeedRecord
from compilegate.gate.judgements import Interval, PairedJudgement
from compilegate.gate.reasons import clipped
from compilegate.gate.settings import ArmDeclaration
from compilegate.gate.speed.steady import are_durations, steady_seconds
from compilegate.gate.statistics.sample_size import MOST_SEEDS, POWER

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
MOST_LOGARITHM = 700.0
"""The logarithm of the largest finite ratio."""


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
    """What one job of the candidate measured by steps in turns."""

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
    """What the jobs of a candidate measured by steps in turns."""

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
        return "one of the two arms was first in nearly all pairs, and what is first is slower"
    return None


def _other_unit(blocks: PairedBlocks, steady: FloatArray) -> str | None:
    """Why the blocks' times are not those of the steps that trained: a step of the probe leaves
    out what a training step does besides, and takes no other order of time."""
    if not len(steady):
        return None
    step, usual = float(np.median(blocks.candidate_seconds)), float(np.median(steady))
    if usual / MOST_TIMES_A_STEP <= step <= usual * MOST_TIMES_A_STEP:
        return None
    return "its steps take quite other times there than in the training: one is in another unit"


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
