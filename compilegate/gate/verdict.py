"""The verdict: what the gate concludes, and its JSON form `verdict.json`.

The pipeline's conditions read `decision.registers`; everything else is for people and the report.
First what is judged of a candidate in one respect (quality, speed, parity, memory), then the whole.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from compilegate.errors import CompilegateError
from compilegate.gate.findings import Note, Outcome, Reason
from compilegate.job.evidence.parity import ParityAnswer, WorstTensor

SCHEMA_VERSION: Final = 1


class VerdictError(CompilegateError):
    """A verdict that cannot be read. The message says what is wrong with it."""


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
    """The outcome; None when only watched."""
    seeds: int
    examples: int
    """Validation examples that it was measured on; zero for a scalar that was only reported."""
    seed_sd: float | None
    """Standard deviation over seeds of the paired difference; None with one seed."""
    seed_standard_error: float | None
    """Contribution of the choice of seeds to the standard error of delta."""
    example_standard_error: float
    """Contribution of the choice of validation examples."""
    seeds_needed: int | None
    """Seeds that would decide an undecided metric if the spread stays what it is; None when it is
    decided, cannot be estimated, or more seeds would not help."""
    examples_needed: int | None
    """Validation examples (of the slice, where it is one) that would decide it with the same
    seeds, to two digits; None as for the seeds."""
    part: str | None = None
    """The slice that it was measured on, as `column = value`; None for all examples."""
    rest_standard_error: float | None = None
    """Contribution of the interaction of seed and example; part of `seed_standard_error`."""
    skewness: float | None = None
    """The skewness of the examples' differences, which a forecast needs."""
    constant: float | None = None
    """What the best constant prediction reaches on the same examples: a model that has learnt
    something is better. None where that is not known, and of a slice."""

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
    """The compiler-only candidate minus the baseline."""
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
    """Seconds that compilation added to a job."""
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
    """Compile seconds in that state, which must be repaid and which break-even counts."""
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
    """The speed-up by alternating blocks of steps, in the candidate's jobs."""

    speedup: Interval
    """Speed-up of whole training steps: what the probe leaves out is added to both arms."""
    jobs: int
    pairs: int
    """Pairs of all jobs."""
    steps_alone: float
    """The speed-up of what the probe takes again: forward, backward and update."""
    rest_share: float
    """The share of the candidate's training step that the probe leaves out, from 0 to 1."""
    baseline_step_seconds: float
    candidate_step_seconds: float
    """Seconds of a step in the probe: the median over pairs, the mean over jobs."""
    probe_seconds: float
    """Seconds of the probes, in all jobs."""


class SpeedSource(StrEnum):
    """What a speed-up was measured by."""

    PAIRS = "pairs"
    """Alternating blocks of both arms' steps, in each of the candidate's jobs."""
    JOBS = "jobs"
    """Each job's own step times."""


@dataclass(frozen=True)
class SpeedJudgement:
    """How much faster a candidate trains, and whether that is enough. Ratios above 1 are faster."""

    outcome: Outcome
    speedup: Interval
    """Steady-state samples per second, candidate over baseline."""
    min_speedup: float
    """The declared minimum."""
    required_speedup: float | None
    """What decides: the larger of min_speedup and the speed-up at which a run ends no later than
    the baseline's, compilation included. None: no speed-up would do, since compiling alone takes as
    long as the baseline's whole run."""
    conditional_on_run: bool
    """True when there is one replicate: the interval then covers the steps of that run only."""
    baseline_samples_per_second: float
    candidate_samples_per_second: float
    advice: str
    """Advice about the speed, in words."""
    seeds: int
    """Jobs of each arm that the interval is over."""
    seeds_needed: int | None
    """Seeds that would settle an undecided speed-up if the jobs spread as they do; None when it is
    settled, the spread is not known, or more seeds would not help."""
    run: RunJudgement | None
    """The run; None where jobs only printed their speed, so that compile times are unknown."""
    source: SpeedSource = SpeedSource.JOBS
    """The measurement behind `speedup`."""
    paired: PairedJudgement | None = None
    """The paired measurement; None where too few jobs alternated blocks."""
    by_jobs: Interval | None = None
    """The speed-up by the jobs' own step times, at the declared confidence; None in a verdict from
    before there were pairs, where `speedup` is that."""
    disagree: bool = False
    """Whether the two contradict each other: their bounds do not overlap."""
    busy_machine: str | None = None
    """What else the machine did while the jobs of both arms trained, in words that follow "The
    machine was busy: "; None where it was quiet, or nothing is known of it."""
    binding: Literal["min_speedup", "repayment"] | None = None
    """Which of the two limits is the larger, and so decides; None in earlier verdicts."""


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
    """The declared limit; None where memory decides nothing."""
    obstacle: str | None
    """Why the two cannot be compared, in a sentence without its full stop; None where they can."""


@dataclass(frozen=True)
class ParityJudgement:
    """Whether the compiled graph is the same arithmetic as eager, whatever the model's quality."""

    answer: ParityAnswer
    sentence: str
    seed: int
    """The replicate that was judged; of several, the one that represents them."""
    precision: str | None = None
    """The precision; None without a parity record."""
    limit: float | None = None
    steps: int = 0
    tensors: int = 0
    judged: int = 0
    """Tensors on which eager is close enough to float64 to show something."""
    median_ratio: float | None = None
    worst: WorstTensor | None = None
    """The worst tensor; None without a reference to measure against."""
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


@dataclass(frozen=True)
class CandidateVerdict:
    """The verdict on one candidate, with its reasons."""

    arm: str
    outcome: Outcome
    reasons: tuple[Reason, ...]
    metrics: tuple[MetricJudgement, ...]
    """Empty when the evidence could not be compared."""
    speed: SpeedJudgement | None
    """The speed; None when it could not be compared or too few steps were steady."""
    confounds: tuple[Confound, ...]
    confidence: float
    """The confidence of its bounds: the declared one, or higher if several candidates compete."""
    effects: tuple[EffectSplit, ...] = ()
    """Empty when no candidate with the same compiler is compiler-only, or this is it."""
    notes: tuple[Note, ...] = ()
    """Observations that decide nothing."""
    parity: ParityJudgement | None = None
    """Parity; None when disabled, without a compiler, or without readable evidence."""
    memory: MemoryJudgement | None = None
    """Memory; None where either arm has no job."""


@dataclass(frozen=True)
class BaselineVerdict:
    """Whether the baseline's evidence is valid, so that its model may be released."""

    arm: str
    sound: bool
    """Whether it is valid."""
    reasons: tuple[Reason, ...]
    """Why it is not valid; or, where it is, why its model may not be released."""
    noise_floor: tuple[NoiseFloor, ...]
    """A noise floor for each metric; empty with one seed or an invalid baseline."""


@dataclass(frozen=True)
class Decision:
    """Which arm's model is released, and whether it is registered."""

    arm: str
    """The arm's name, or "none"."""
    seed: int
    """The replicate that is released: the first declared seed, fixed beforehand, so that nobody
    can pick the best of several."""
    sentence: str
    registers: str = ""
    """What the pipeline's conditions compare: the arm whose model is registered, "nothing-new" or
    "none" (`compilegate.gate.decision`). Empty in verdicts of earlier versions."""


@dataclass(frozen=True)
class Amount:
    """Time of machines, summed over jobs, and what it costs."""

    seconds: float
    usd: float | None
    """Dollars; None without a price for the instance that the jobs ran on."""

    @classmethod
    def total(cls, *parts: tuple[int, Amount]) -> Amount:
        """The sum of count x amount; no dollars where one amount has none."""
        dollars = [count * amount.usd for count, amount in parts if amount.usd is not None]
        return cls(
            seconds=sum(count * amount.seconds for count, amount in parts),
            usd=sum(dollars) if len(dollars) == len(parts) else None,
        )


@dataclass(frozen=True)
class ArmCost:
    """What one training job of an arm takes, on average over its valid replicates."""

    arm: str
    jobs: int
    """The valid replicates, which the means are over."""
    training: Amount
    """Training from before the first step to after the last, compilation included."""
    retraining: Amount
    """The same of a retraining, which compiles as a retraining does: from the cache as soon as one
    of these jobs found its graphs there, even where others had to fill it."""
    job: Amount
    """The whole process, evaluation and probes included."""
    samples_per_second: float | None
    """The rate over the steady steps; None if too few were measured."""
    samples_per_dollar: float | None
    instance_type: str | None
    """The instance that all its jobs ran on; None when they do not say, or differ."""
    usd_per_hour: float | None
    """The instance's price; None without dollars."""
    price_note: str
    """When and where that was the price; or, in a sentence, why there are no dollars."""


@dataclass(frozen=True)
class MoreSeeds:
    """Seeds that would decide all that is undecided about a candidate: quality and speed."""

    seeds: int
    """Additional seeds, each trained in the baseline and in the candidate."""
    amount: Amount


@dataclass(frozen=True)
class MoreExamples:
    """Validation examples that would decide all that is undecided about a candidate's quality."""

    growth: float
    """Times as many as there were, in every slice that is undecided."""
    examples: int
    """Validation examples in all, to two digits; slices grow in proportion."""
    amount: Amount
    """The cost of running the candidate's and the baseline's jobs again on all examples. What
    the examples themselves cost is not known here."""


@dataclass(frozen=True)
class CandidateCost:
    """What turning a candidate on saves, and when that has paid for asking."""

    arm: str
    saved: Amount
    """Saving of each retraining, end to end with compilation; negative when it takes longer."""
    retrainings_to_repay: int | None
    """Retrainings whose savings make up for what the gate cost; None means never."""
    repaid_in: str
    """"dollars" where they are known, else "seconds": what the retrainings are counted by."""
    break_even_runs: float | None
    """Trainings of this length until compilation has paid for itself; None means never."""
    compile_state: CompileState | None
    """What compilation counts there: cold or warm; None when speed was not measured."""
    more_seeds: MoreSeeds | None
    """Seeds that would decide; None when nothing is undecided or seeds would not help."""
    more_examples: MoreExamples | None
    """Examples that would decide; None when nothing is undecided or examples would not help."""


@dataclass(frozen=True)
class CostFigures:
    """What this execution cost, and what it says about the next ones."""

    arms: tuple[ArmCost, ...]
    """Arms with a valid replicate."""
    gate: Amount
    """All training beyond one job of the baseline, which one would have run without a gate."""
    jobs_counted: int
    jobs_not_counted: int
    """Jobs that failed, or whose evidence is not valid: the gate cost at least what it says."""
    candidates: tuple[CandidateCost, ...]
    """Candidates that could be compared with the baseline."""


@dataclass(frozen=True)
class Verdict:
    """Everything the gate concludes about one execution."""

    workload: str
    seeds: tuple[int, ...]
    confidence: float
    decision: Decision
    baseline: BaselineVerdict
    candidates: tuple[CandidateVerdict, ...]
    cost: CostFigures | None = None
    """Cost; None when no job's evidence is valid."""
    rules: dict[str, Any] = field(default_factory=dict)
    """The `[gate]` table that it was judged by, with its defaults. Empty in verdicts of earlier
    versions."""
    schema_version: Literal[1] = SCHEMA_VERSION

    def to_json(self) -> str:
        """`verdict.json`: keys are the field names, numbers are finite."""
        document = dataclasses.asdict(self)
        return json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Verdict:
        """Read `verdict.json` back. Raises VerdictError for anything else."""
        try:
            return _ADAPTER.validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"]) or "the document"
            raise VerdictError(
                f"not a verdict of schema {SCHEMA_VERSION}: {key}: {first['msg']}"
            ) from error


def verdict_schema() -> dict[str, Any]:
    """The JSON schema of `verdict.json`, published as docs/verdict.schema.json."""
    schema = _ADAPTER.json_schema(mode="serialization")
    for definition in (schema, *schema["$defs"].values()):
        if "properties" in definition:
            definition["additionalProperties"] = False
            definition["required"] = sorted(definition["properties"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


_ADAPTER = TypeAdapter(Verdict)
