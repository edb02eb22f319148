"""Non-inferiority: is a candidate's model as good as the baseline's, to within a margin?

**The question** is about the arm, not about one lucky model: over the seeds one might have drawn
and the examples one might have held out, is the candidate's metric worse by less than the margin?
It is answered by a one-sided bound at the declared confidence (one side of Schuirmann's two
one-sided tests, 1987). All guarded metrics must pass, which needs no correction for their number:
that is an intersection-union test (Berger 1982).

**Pairing.** Both arms are scored on the same examples, so examples are paired. Replicates with the
same seed are paired as well: they share the initial weights and the order of the data. The interval
is then valid whatever that sharing is worth. For a converged recipe it roughly halves the spread;
for a noisy one it buys nothing, and costs a little width (k - 1 degrees of freedom, not 2k - 2).
Choosing between the two after seeing the data would make the confidence a lie, so it is fixed.

**Relative margins** count the baseline's own uncertainty: where higher is better, the tested
quantity is candidate - baseline + fraction x baseline, example by example.

**One seed.** The spread between seeds cannot be seen, so nothing can pass for the arm. A fail
stands: the one model that could be released is worse than the margin. All else is inconclusive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.gate.config import MetricGuard, MetricName
from pipelines.gate.crossed import CrossedMean, crossed_mean
from pipelines.gate.metrics import one_flip, per_example
from pipelines.gate.reasons import Code, Number, Outcome, Reason
from pipelines.gate.units import unit_of
from pipelines.gate.verdict import Interval, MetricJudgement, NoiseFloor
from training.evidence import Examples, FloatArray

MOST_SEEDS_PLANNED = 100


@dataclass(frozen=True)
class _Comparison:
    """One metric of two arms, as the quantity that must stay above zero: margin minus harm."""

    baseline: float
    candidate: float
    margin: float
    slack: CrossedMean
    half_width: float


def judge_metric(
    metric: MetricName,
    guard: MetricGuard,
    baseline: Sequence[Examples],
    candidate: Sequence[Examples],
    confidence: float,
) -> tuple[MetricJudgement, Reason]:
    """Compare the replicates of two arms; `baseline[j]` and `candidate[j]` have the same seed.

    All replicates must hold the same two or more examples in the same order (`agreement` sees to
    both). The reason says the outcome in words.
    """
    comparison = _compare(metric, guard, baseline, candidate, confidence)
    outcome = _outcome(comparison)
    slack = comparison.slack
    delta = comparison.candidate - comparison.baseline
    judgement = MetricJudgement(
        metric=metric,
        direction=guard.direction,
        margin=comparison.margin,
        relative_margin=guard.margin if guard.relative else None,
        baseline=comparison.baseline,
        candidate=comparison.candidate,
        delta=Interval(delta, delta - comparison.half_width, delta + comparison.half_width),
        outcome=outcome,
        seeds=slack.seeds,
        examples=slack.examples,
        seed_sd=slack.seed_sd,
        seed_standard_error=None if slack.seed_variance is None else math.sqrt(slack.seed_variance),
        example_standard_error=math.sqrt(slack.example_variance),
        seeds_needed=(
            _seeds_needed(slack, confidence) if outcome is Outcome.INCONCLUSIVE else None
        ),
    )
    return judgement, _reason(judgement, slack, confidence)


def noise_floor(metric: MetricName, baseline: Sequence[Examples]) -> NoiseFloor:
    """How much the metric moves between the baseline's own seeds; needs two or more."""
    values = [float(per_example(metric, examples).mean()) for examples in baseline]
    return NoiseFloor(
        metric=metric,
        mean=float(np.mean(values)),
        seed_sd=float(np.std(values, ddof=1)),
        seeds=len(values),
    )


def _compare(
    metric: MetricName,
    guard: MetricGuard,
    baseline: Sequence[Examples],
    candidate: Sequence[Examples],
    confidence: float,
) -> _Comparison:
    baseline_table = _table(metric, baseline)
    candidate_table = _table(metric, candidate)
    sign = 1.0 if guard.direction == "higher" else -1.0
    margin = guard.margin * baseline_table if guard.relative else guard.margin
    slack = crossed_mean(
        sign * (candidate_table - baseline_table) + margin,
        one_flip(metric, baseline[0].labels),
    )
    return _Comparison(
        baseline=float(baseline_table.mean()),
        candidate=float(candidate_table.mean()),
        margin=float(np.mean(margin)),
        slack=slack,
        half_width=slack.half_width(confidence),
    )


def _table(metric: MetricName, replicates: Sequence[Examples]) -> FloatArray:
    return np.stack([per_example(metric, examples) for examples in replicates])


def _outcome(comparison: _Comparison) -> Outcome:
    slack, half_width = comparison.slack, comparison.half_width
    if slack.mean + half_width < 0.0:
        return Outcome.FAIL
    if slack.mean - half_width > 0.0 and slack.seed_variance is not None:
        return Outcome.PASS
    return Outcome.INCONCLUSIVE


def _seeds_needed(slack: CrossedMean, confidence: float) -> int | None:
    if slack.seed_variance is None:
        return None
    for seeds in range(slack.seeds + 1, MOST_SEEDS_PLANNED + 1):
        if slack.half_width(confidence, seeds) < abs(slack.mean):
            return seeds
    return None


def _reason(judgement: MetricJudgement, slack: CrossedMean, confidence: float) -> Reason:
    sentence = f"{_found(judgement, confidence)} {_meaning(judgement, slack)}"
    return Reason(_code(judgement), judgement.outcome, sentence, _numbers(judgement))


def _code(judgement: MetricJudgement) -> Code:
    if judgement.outcome is Outcome.FAIL:
        return Code.QUALITY_WORSE
    if judgement.outcome is Outcome.PASS:
        return Code.QUALITY_NOT_WORSE
    return Code.QUALITY_SINGLE_SEED if judgement.seeds == 1 else Code.QUALITY_UNDECIDED


def _found(judgement: MetricJudgement, confidence: float) -> str:
    unit = unit_of(judgement.metric)
    delta = judgement.delta
    return (
        f"{judgement.metric}: {unit.amount(delta.estimate, signed=True)} against the baseline, "
        f"between {unit.number(delta.lower, signed=True)} and "
        f"{unit.number(delta.upper, signed=True)} ({confidence * 100:g}% bounds); "
        f"the margin is {unit.amount(judgement.limit, signed=True)}."
    )


def _meaning(judgement: MetricJudgement, slack: CrossedMean) -> str:
    if judgement.outcome is Outcome.PASS:
        return "It is no worse than the margin allows."
    if judgement.outcome is Outcome.FAIL:
        beyond = "The whole interval lies beyond the margin: the model is worse."
        only_one = " With one seed this is said of that one model."
        return beyond + (only_one if judgement.seeds == 1 else "")
    if judgement.seeds == 1:
        return (
            "With one seed the interval covers the choice of examples only, not the choice of "
            "seed, so nothing is proven about the arm: declare two or more seeds."
        )
    if judgement.seeds_needed is not None:
        return (
            f"The interval reaches across the margin: about {judgement.seeds_needed} seeds "
            f"instead of {judgement.seeds} would settle it."
        )
    return f"The interval reaches across the margin, and {_why_seeds_do_not_help(slack)}."


def _why_seeds_do_not_help(slack: CrossedMean) -> str:
    if slack.seed_variance is not None and slack.example_variance > slack.seed_variance:
        return "more seeds alone would not settle it: it takes a larger validation set"
    return f"even {MOST_SEEDS_PLANNED} seeds would not settle it: the difference is at the margin"


def _numbers(judgement: MetricJudgement) -> dict[str, Number]:
    return {
        "metric": judgement.metric,
        "delta": judgement.delta.estimate,
        "lower": judgement.delta.lower,
        "upper": judgement.delta.upper,
        "limit": judgement.limit,
        "seeds": judgement.seeds,
        "examples": judgement.examples,
        "seeds_needed": judgement.seeds_needed,
    }
