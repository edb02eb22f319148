"""What is judged of a candidate in one respect: quality, speed, parity, what else differs.

They are parts of the verdict, and so of `verdict.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from compilegate.gate.reasons import Outcome


@dataclass(frozen=True)
class Interval:
    """An estimate and its bounds; each bound is one-sided at the experiment's confidence."""

    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True)
class MetricJudgement:
    """One metric of one candidate, in the metric's own units (fractions, nats)."""

    metric: str
    direction: Literal["higher", "lower"]
    """Which way is better."""
    margin: float | None
    """How much worse is acceptable, in the metric's units; positive. None when only watched."""
    relative_margin: float | None
    """The declared fraction of the baseline's value when the margin is relative."""
    baseline: float
    """Mean over the baseline's replicates."""
    candidate: float
    delta: Interval
    """Candidate minus baseline, whatever the direction."""
    outcome: Outcome | None
    """None when only watched."""
    seeds: int
    examples: int
    """Validation examples that it was measured on; zero for a scalar that was only reported."""
    seed_sd: float | None
    """Standard deviation over seeds of the paired difference; None with one seed."""
    seed_standard_error: float | None
    """What the choice of seeds contributes to the standard error of delta."""
    example_standard_error: float
    """What the choice of validation examples contributes."""
    seeds_needed: int | None
    """Seeds that would settle an undecided metric if the spread stays what it is; None when it is
    settled, cannot be estimated, or more seeds would not help."""
    examples_needed: int | None
    """Validation examples (of the slice, where it is one) that would settle it with the same
    seeds, to two digits; None as for the seeds."""
    part: str | None = None
    """The slice that it was measured on, as `column = value`; None for all examples."""

    @property
    def limit(self) -> float | None:
        """The delta beyond which a candidate is not acceptable: the margin with its sign."""
        if self.margin is None:
            return None
        return -self.margin if self.direction == "higher" else self.margin


@dataclass(frozen=True)
class EffectSplit:
    """What of a candidate's difference the compiler makes, and what the rest of its recipe does."""

    metric: str
    compiler_only: str
    """The candidate that has the baseline's batch, rate and precision, and so differs from it by
    the compiler alone."""
    compiler: Interval
    """That candidate minus the baseline."""
    rest: Interval
    """This candidate minus that one."""
    changed: tuple[str, ...]
    """What the rest is: the declared keys in which the two candidates differ."""


class CompileState(StrEnum):
    """What a compiler started from."""

    COLD = "cold"
    WARM = "warm"


@dataclass(frozen=True)
class CompileTime:
    """Compilation in one state: means over jobs."""

    seconds: float
    """That compilation added to a job."""
    first_step_seconds: float
    jobs: int
    """Jobs that the means are over."""
    earlier: bool = False
    """True when the jobs are those that filled the cache, and not of this execution."""


@dataclass(frozen=True)
class RunJudgement:
    """What whole trainings took, and what compiling took of it; `baseline` and `candidate` are
    means over the jobs of each."""

    repaid_within_steps: int
    """Steps of the candidate within which compilation has to be repaid."""
    compile_state: CompileState
    """What a retraining starts from: warm as soon as one job found its graphs in the cache."""
    baseline_compile_seconds: float
    candidate_compile_seconds: float
    """In that state; what must be repaid, and what break-even counts."""
    compile_cold: CompileTime | None
    compile_warm: CompileTime | None
    """The candidate's; None where that state was not measured."""
    candidate_batch_size: int
    candidate_steps: int
    break_even_steps: int | None
    """Candidate steps after which compilation has paid for itself; None means never."""
    break_even_minutes: float | None
    train_time_ratio: float | None
    """Baseline's training time over the candidate's for the whole run, compilation included."""
    baseline_train_seconds: float
    candidate_train_seconds: float


@dataclass(frozen=True)
class PairedJudgement:
    """The speed-up by steps that were taken in turns, in the candidate's jobs."""

    speedup: Interval
    """For whole training steps: what the probe leaves out of a step is added to both arms'."""
    jobs: int
    pairs: int
    """In all jobs."""
    steps_alone: float
    """The speed-up of what the probe takes again: forward, backward and update."""
    rest_share: float
    """The share of the candidate's training step that the probe leaves out, from 0 to 1."""
    baseline_step_seconds: float
    candidate_step_seconds: float
    """How long a step takes in the probe: the median over pairs, the mean over jobs."""
    probe_seconds: float
    """What the probes took, in all jobs."""


class SpeedSource(StrEnum):
    """What a speed-up was measured by."""

    PAIRS = "pairs"
    """Steps of both arms, taken in turns in each of the candidate's jobs."""
    JOBS = "jobs"
    """Each job's own step times."""


@dataclass(frozen=True)
class SpeedJudgement:
    """How much faster a candidate trains, and whether that is enough. Ratios above 1 are faster."""

    outcome: Outcome
    speedup: Interval
    """Steady-state samples per second, candidate over baseline."""
    min_speedup: float
    """As declared."""
    required_speedup: float | None
    """What decides: the larger of min_speedup and the speed-up at which a run ends no later than
    the baseline's, compilation included. None: no speed-up would do, since compiling alone takes as
    long as the baseline's whole run."""
    conditional_on_run: bool
    """True when there is one replicate: the interval then covers the steps of that run only."""
    baseline_samples_per_second: float
    candidate_samples_per_second: float
    advice: str
    """What to do about the speed, in words."""
    seeds: int
    """Jobs of each arm that the interval is over."""
    seeds_needed: int | None
    """Seeds that would settle an undecided speed-up if the jobs spread as they do; None when it is
    settled, the spread is not known, or more seeds would not help."""
    run: RunJudgement | None
    """None where jobs only printed their speed: then nobody knows what compiling took."""
    source: SpeedSource = SpeedSource.JOBS
    """What `speedup` was measured by."""
    paired: PairedJudgement | None = None
    """None where too few jobs took steps in turns."""
    by_jobs: Interval | None = None
    """The speed-up by the jobs' own step times, at the declared confidence; None in a verdict from
    before there were pairs, where `speedup` is that."""
    disagree: bool = False
    """Whether the two contradict each other: their bounds do not overlap."""
    busy_machine: str | None = None
    """What else the machine did while the jobs of both arms trained, in words that follow "The
    machine was busy: "; None where it was quiet, or nothing is known of it."""


@dataclass(frozen=True)
class MemoryJudgement:
    """How much memory a candidate takes, against the baseline."""

    baseline_bytes: int | None
    candidate_bytes: int | None
    """The largest peak of the arm's jobs; None where one of them did not measure it, or they
    measured different kinds of memory."""
    baseline_of: str | None
    candidate_of: str | None
    """Whose memory it is: "device" or "process"; None where it is not known or not one kind."""
    increase: float | None
    """The candidate's over the baseline's, minus one; None where they cannot be compared."""
    max_increase: float | None
    """As declared; None where memory decides nothing."""
    obstacle: str | None
    """Why the two cannot be compared, in a sentence without its full stop; None where they can."""


class ParityAnswer(StrEnum):
    """What parity says."""

    PASS = "pass"  # noqa: S105 - an answer, no password
    FAIL = "fail"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True)
class WorstTensor:
    """Where the compiled arithmetic is farthest from what eager's rounding explains."""

    tensor: str
    step: int
    """From 0, in the order of training."""
    ratio: float | None
    """The compiled error as a multiple of what eager's rounding explains: the largest of eager's
    errors on the tensor, or the precision's epsilon. None: not a finite number."""
    compiled_error: float | None
    """Relative to the tensor's norm in float64. None: not a finite number."""
    eager_error: float
    """Eager's error in the same step."""


@dataclass(frozen=True)
class ParityJudgement:
    """Whether the compiled graph is the same arithmetic as eager, whatever the model's quality."""

    answer: ParityAnswer
    sentence: str
    seed: int
    """The replicate that was judged; of several, the one that represents them."""
    precision: str | None = None
    """None where there is no parity record at all."""
    limit: float | None = None
    steps: int = 0
    tensors: int = 0
    judged: int = 0
    """Tensors on which eager is close enough to float64 to show something."""
    median_ratio: float | None = None
    worst: WorstTensor | None = None
    """None where there is nothing to measure against."""
    departs: str | None = None
    """Which module's output or gradient departs first, in a sentence of the job's; None where it
    found none."""
    repro: str | None = None
    """The script that shows it, as a path relative to the report; None where there is none."""


@dataclass(frozen=True)
class Confound:
    """Something besides the compiler that differs between a candidate and the baseline."""

    name: str
    baseline: str
    candidate: str
    intended: bool
    """True when the workload declares the difference, or it follows from one that it declares."""
    why: str


@dataclass(frozen=True)
class NoiseFloor:
    """How much a metric moves between the baseline's own seeds: chance, not a compiler."""

    metric: str
    mean: float
    seed_sd: float
    seeds: int
