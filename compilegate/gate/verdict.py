"""The verdict: what the gate concludes, and its JSON form `verdict.json`.

The pipeline's conditions read `decision.arm`; everything else is for people and the report.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from compilegate.errors import CompilegateError
from compilegate.gate.judgements import (
    CompileState,
    Confound,
    EffectSplit,
    MemoryJudgement,
    MetricJudgement,
    NoiseFloor,
    ParityJudgement,
    SpeedJudgement,
)
from compilegate.gate.reasons import Note, Outcome, Reason

SCHEMA_VERSION: Final = 1


class VerdictError(CompilegateError):
    """A verdict that cannot be read. The message says what is wrong with it."""


@dataclass(frozen=True)
class CandidateVerdict:
    """One candidate: pass, fail or inconclusive, and why."""

    arm: str
    outcome: Outcome
    reasons: tuple[Reason, ...]
    metrics: tuple[MetricJudgement, ...]
    """Empty when the evidence could not be compared."""
    speed: SpeedJudgement | None
    """None when the evidence could not be compared, or holds too few steady steps."""
    confounds: tuple[Confound, ...]
    confidence: float
    """The confidence of its bounds: the declared one, or higher if several candidates compete."""
    effects: tuple[EffectSplit, ...] = ()
    """Empty when no candidate with the same compiler is compiler-only, or this is it."""
    notes: tuple[Note, ...] = ()
    """What was seen and decides nothing."""
    parity: ParityJudgement | None = None
    """None where the gate was told not to look, the arm has no compiler or nothing can be read."""
    memory: MemoryJudgement | None = None
    """None where no job of the candidate or of the baseline trained, or models are compared."""


@dataclass(frozen=True)
class BaselineVerdict:
    """Whether the baseline's evidence is sound, so that its model may be released."""

    arm: str
    sound: bool
    reasons: tuple[Reason, ...]
    """Why it is not sound; empty when it is."""
    noise_floor: tuple[NoiseFloor, ...]
    """A noise floor for each metric; empty with one seed, an unsound baseline or a champion."""
    registered: bool = False
    """True where it is the model that was approved last, and no arm of this execution."""
    exists: bool = True
    """False where no model was registered yet."""


@dataclass(frozen=True)
class Decision:
    """Which arm's model is released."""

    arm: str
    """The arm's name, or "none"; never null, because conditions compare it with names."""
    seed: int
    """The replicate that is released: the first declared seed, fixed beforehand, so that nobody
    can pick the best of several."""
    sentence: str


@dataclass(frozen=True)
class Amount:
    """Time of machines, summed over jobs, and what it costs."""

    seconds: float
    usd: float | None
    """None when the price is not known, or the jobs did not run on the instance that has it."""


@dataclass(frozen=True)
class ArmCost:
    """What one training job of an arm takes, on average over its sound replicates."""

    arm: str
    jobs: int
    """The sound replicates, which the means are over."""
    training: Amount
    """From before the first step to after the last, compilation included."""
    retraining: Amount
    """The same of a retraining, which compiles as a retraining does: from the cache as soon as one
    of these jobs found its graphs there, even where others had to fill it."""
    job: Amount
    """From the start of the process to its end: evaluation and probes included."""
    samples_per_second: float | None
    """The rate over the steady steps; None if too few were measured."""
    samples_per_dollar: float | None
    instance_type: str | None
    """The instance that all its jobs ran on; None when they do not say, or differ."""
    usd_per_hour: float | None
    """That instance's price; None whenever there are no dollars."""
    price_note: str
    """When and where that was the price; or, in a sentence, why there are no dollars."""


@dataclass(frozen=True)
class MoreSeeds:
    """Seeds that would settle all that is undecided about a candidate: quality and speed."""

    seeds: int
    """More than were run; each is trained in the baseline and in the candidate."""
    amount: Amount


@dataclass(frozen=True)
class MoreExamples:
    """Validation examples that would settle all that is undecided about a candidate's quality."""

    growth: float
    """Times as many as there were, in every slice that is undecided."""
    examples: int
    """In all, with the slices as large a part as they are; to two digits."""
    amount: Amount
    """The cost of running the candidate's and the baseline's jobs again on all examples. What
    the examples themselves cost is not known here."""


@dataclass(frozen=True)
class CandidateCost:
    """What turning a candidate on saves, and when that has paid for asking."""

    arm: str
    saved: Amount
    """By each retraining, end to end with its compilation; negative when it takes longer."""
    retrainings_to_repay: int | None
    """Retrainings whose savings make up for what the gate cost; None means never."""
    repaid_in: str
    """"dollars" where they are known, else "seconds": what the retrainings are counted by."""
    break_even_runs: float | None
    """Trainings of this length until compilation has paid for itself; None means never."""
    compile_state: CompileState | None
    """What compilation counts there: cold or warm; None when speed was not measured."""
    more_seeds: MoreSeeds | None
    """None when nothing is undecided, or more seeds would not settle it."""
    more_examples: MoreExamples | None
    """None when nothing is undecided, or more examples would not settle it."""


@dataclass(frozen=True)
class CostFigures:
    """What this execution cost, and what it says about the next ones."""

    arms: tuple[ArmCost, ...]
    """Those with a sound replicate."""
    gate: Amount
    """All training beyond one job of the baseline, which one would have run without a gate."""
    jobs_counted: int
    jobs_not_counted: int
    """Jobs that failed, or whose evidence is unsound: the gate's cost is at least what it says."""
    candidates: tuple[CandidateCost, ...]
    """Those that could be compared with the baseline."""


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
    """None when no job's evidence is sound."""
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
