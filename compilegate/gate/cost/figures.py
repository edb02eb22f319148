"""What the verdict says of money: the seconds and dollars of each arm, of the gate, of what's next.

Seconds are those that the jobs measured themselves. An instance is billed for a little more: for
fetching its data and its image's start. Dollars are None wherever they are not known.
"""

from __future__ import annotations

from dataclasses import dataclass

from compilegate.gate.speed.compile_time import CompileState


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
    """From the start of the process to its end: evaluation and parity probe included."""
    samples_per_second: float | None
    """Of the steady steps; None when too few were measured."""
    samples_per_dollar: float | None
    instance_type: str | None
    """The instance that all its jobs ran on; None when they do not say, or differ."""
    usd_per_hour: float | None
    """Of that instance; None whenever there are no dollars."""
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
    """Of running the candidate's and the baseline's jobs again, as each scores all examples. What
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
