"""Non-inferiority: is a candidate's model as good as the baseline's, to within a margin?

**The question** is about the arm, not about one lucky model: over the seeds one might have drawn
and the examples one might have held out, is the candidate's metric worse by less than the margin?
It is answered by a one-sided bound at the declared confidence (one side of Schuirmann's two
one-sided tests, 1987). All guarded metrics must pass, which needs no correction for their number:
that is an intersection-union test (Berger 1982). For several candidates, see `multiplicity`.

**Pairing.** Both arms are scored on the same examples, so examples are paired. Replicates with the
same seed are paired as well: they share the initial weights and the order of the data. The interval
is then valid whatever that sharing is worth. For a converged recipe it roughly halves the spread;
for a noisy one it buys nothing, and costs a little width (k - 1 degrees of freedom, not 2k - 2).
Choosing between the two after seeing the data would make the confidence a lie, so it is fixed.

**Relative margins** count the baseline's own uncertainty: where higher is better, the tested
quantity is candidate - baseline + fraction x baseline, example by example.

**One seed.** The spread between seeds cannot be seen, so nothing can pass for the arm. A fail
stands: the one model that could be released is worse than the margin. All else is inconclusive.
A reported scalar with one seed has no spread at all, and nothing is said of it.

**Long tails.** Where a harm larger than the margin may sit in examples so rare that the validation
set need not hold one, nothing passes either (`tails`, "Unseen"). A fail stands.

**No spread.** Scalars that differ by the same number in every seed show no uncertainty, which is
not certainty: how coarsely they were rounded is not known, so nothing bounds what the seeds did not
show. They are inconclusive. Per-example values that agree do pass, be it to the last bit: there the
resolution is known, as one flip (`metrics.one_flip`) or the worst example (`tails`, "Unseen").
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from compilegate.gate.judgements import Interval, MetricJudgement, NoiseFloor
from compilegate.gate.quality.comparison import Comparison
from compilegate.gate.quality.units import unit_of
from compilegate.gate.reasons import Code, Note, Number, Outcome, Reason, interval_name
from compilegate.gate.statistics.difference_interval import NO_EXAMPLES, CrossedMean
from compilegate.gate.statistics.failures import highest_rate, percent
from compilegate.gate.statistics.lopsided import FEWEST_SEEDS
from compilegate.gate.statistics.sample_size import (
    MOST_SEEDS,
    SampleSize,
    rounded_up,
    sample_size_needed,
)
from compilegate.gate.statistics.tails import examples_to_see, unseen_share

_LEADS = {
    Outcome.PASS: " is no worse",
    Outcome.INCONCLUSIVE: " is not settled",
    Outcome.FAIL: " is worse",
}
AT_MARGIN = 0.1
"""How near to the margin, as a part of it, a difference is at the margin."""


def outcome_of(comparison: Comparison, confidence: float) -> Outcome | None:
    """What the comparison says at this confidence; None when it is only watched."""
    if comparison.margin is None:
        return None
    slack = comparison.slack
    to_harm, half_width = comparison.half_widths(confidence)
    if slack.mean + half_width < 0.0 and (slack.seeds > 1 or not comparison.has_no_spread):
        return Outcome.FAIL
    if slack.seed_variance is None or comparison.has_no_spread:
        return Outcome.INCONCLUSIVE
    if slack.mean - to_harm > 0.0 and not comparison.hides_harm(confidence):
        return Outcome.PASS
    return Outcome.INCONCLUSIVE


def conclude(comparison: Comparison, confidence: float) -> tuple[MetricJudgement, Reason | Note]:
    """The judgement at this confidence, and the reason (or, when watched, the note) in words."""
    outcome = outcome_of(comparison, confidence)
    slack = comparison.slack
    to_harm, to_gain = comparison.half_widths(confidence)
    below, above = (
        (to_harm, to_gain) if comparison.guard.direction == "higher" else (to_gain, to_harm)
    )
    delta = comparison.candidate - comparison.baseline
    undecided = outcome is Outcome.INCONCLUSIVE
    needed = _sample_size_needed(comparison, confidence) if undecided else SampleSize()
    judgement = MetricJudgement(
        metric=comparison.metric,
        direction=comparison.guard.direction,
        margin=comparison.margin,
        relative_margin=comparison.guard.margin if comparison.guard.relative else None,
        baseline=comparison.baseline,
        candidate=comparison.candidate,
        delta=Interval(delta, delta - below, delta + above),
        outcome=outcome,
        seeds=slack.seeds,
        examples=comparison.rows,
        seed_sd=slack.seed_sd,
        seed_standard_error=None if slack.seed_variance is None else math.sqrt(slack.seed_variance),
        example_standard_error=math.sqrt(slack.example_variance),
        seeds_needed=needed.seeds,
        examples_needed=needed.examples,
        part=comparison.part,
    )
    found = _found(judgement, comparison, confidence)
    if outcome is Outcome.PASS:
        found += _invisible(comparison, confidence) + _of_few_seeds(comparison, confidence)
    if outcome is None:
        return judgement, Note(Code.QUALITY_WATCHED, found, _numbers(judgement))
    code, meaning = _meaning(judgement, comparison, needed, confidence)
    return judgement, Reason(code, outcome, f"{found} {meaning}".rstrip(), _numbers(judgement))


def noise_floor(metric: str, values: Sequence[float]) -> NoiseFloor:
    """How much the metric moves between the baseline's own seeds; `values` has two or more."""
    return NoiseFloor(
        metric=metric,
        mean=float(np.mean(values)),
        seed_sd=float(np.std(values, ddof=1)),
        seeds=len(values),
    )


def _sample_size_needed(comparison: Comparison, confidence: float) -> SampleSize:
    """What would settle it, where the examples must also show what could be a harm."""
    slack = comparison.slack
    needed = sample_size_needed(slack, comparison.rows, confidence)
    if not comparison.margin or slack.mean <= 0.0 or not comparison.hides_harm(confidence):
        return needed
    columns = examples_to_see(comparison.margin / comparison.worst_example, confidence)
    rows = rounded_up(columns * comparison.rows / slack.examples)
    if _is_only_unseen(comparison, confidence):
        return SampleSize(examples=rows)
    if needed.examples is not None:
        return SampleSize(examples=max(needed.examples, rows))
    if needed.both is not None:
        return SampleSize(both=(needed.both[0], max(needed.both[1], rows)))
    return needed if needed.seeds is None else SampleSize(both=(needed.seeds, rows))


def _is_only_unseen(comparison: Comparison, confidence: float) -> bool:
    """Whether the whole interval is within the margin, and a harm could still go unseen."""
    slack = comparison.slack
    return slack.mean > comparison.half_widths(confidence)[0] and comparison.hides_harm(confidence)


def _found(judgement: MetricJudgement, comparison: Comparison, confidence: float) -> str:
    unit = unit_of(judgement.metric)
    delta = judgement.delta
    between = (
        "with unknown bounds"
        if comparison.has_no_spread
        else f"between {unit.number(delta.lower, signed=True)} and "
        f"{unit.number(delta.upper, signed=True)} ({interval_name(confidence)})"
    )
    where = "" if judgement.part is None else f" where {judgement.part}"
    limit = (
        "it is only watched"
        if judgement.limit is None
        else f"the margin is {unit.amount(judgement.limit, signed=True)}"
    )
    lead = "" if judgement.outcome is None else _LEADS[judgement.outcome]
    return (
        f"{judgement.metric}{where}{lead}: {unit.amount(delta.estimate, signed=True)} against "
        f"{comparison.against}, {between}; {limit}."
    )


def _invisible(comparison: Comparison, confidence: float) -> str:
    """What harm no such validation set need show, where examples have no worst one.

    Flips do: what they hide is in the interval.
    """
    slack, margin = comparison.slack, comparison.margin
    if margin is None or margin <= 0.0 or slack.examples == NO_EXAMPLES:
        return ""
    if comparison.guard.worst_example is not None or comparison.resolves_by_flips:
        return ""
    share = unseen_share(slack.examples, confidence)
    unit = unit_of(comparison.metric)
    return (
        f" A harm in fewer than 1 of {math.floor(1.0 / share):,} examples may not show, which is "
        f"more than the margin from {unit.amount(margin / share)} on in each."
    )


def _of_few_seeds(comparison: Comparison, confidence: float) -> str:
    """What so few seeds do not show, where the bound on harm that some seeds carry needs more."""
    seeds = comparison.slack.seeds
    if seeds >= FEWEST_SEEDS or comparison.part is not None or not comparison.margin:
        return ""
    return (
        f" With {seeds} seeds, up to {percent(highest_rate(seeds, 0, confidence), down=False)} of "
        "seeds may lose more than the worst of these did."
    )


def _meaning(
    judgement: MetricJudgement, comparison: Comparison, needed: SampleSize, confidence: float
) -> tuple[Code, str]:
    """What the interval means, and what would settle it."""
    if judgement.outcome is Outcome.PASS:
        return Code.QUALITY_NOT_WORSE, ""
    if judgement.outcome is Outcome.FAIL:
        only_one = "With one seed this holds for that one model only."
        beyond = "The whole interval lies beyond the margin."
        return Code.QUALITY_WORSE, only_one if judgement.seeds == 1 else beyond
    if judgement.margin == 0.0:
        return Code.QUALITY_UNDECIDED, (
            f"The margin is relative to {comparison.against}, whose value is zero, so it is zero "
            "as well: declare an absolute margin."
        )
    if judgement.seeds == 1:
        return Code.QUALITY_SINGLE_SEED, _why_one_seed_is_too_few(comparison.slack)
    if comparison.has_no_spread:
        return Code.QUALITY_NO_SPREAD, (
            "The difference is the same in every seed, so nothing shows how uncertain it is: "
            "report it with more digits, or as a value for each example."
        )
    code, why = _why_undecided(comparison, confidence)
    return code, f"{why}: {_what_settles_it(judgement, comparison, needed)}."


def _why_undecided(comparison: Comparison, confidence: float) -> tuple[Code, str]:
    slack = comparison.slack
    if _is_only_unseen(comparison, confidence):
        unit = unit_of(comparison.metric)
        if comparison.metric == "auroc":
            return Code.QUALITY_LONG_TAIL, (
                "The interval is within the margin, but with so few examples of the rarer class a "
                f"harm of {unit.amount(comparison.unseen_harm(confidence))} need not show"
            )
        worst = unit.amount(comparison.worst_example)
        return Code.QUALITY_LONG_TAIL, (
            f"The interval is within the margin, but the worst example is {worst} worse than its "
            f"arm's mean, and so few such examples would make up the margin that a set of "
            f"{comparison.rows:,} may contain none"
        )
    if slack.is_too_skewed and slack.example_variance > (slack.seed_variance or 0.0):
        return Code.QUALITY_LONG_TAIL, (
            f"The differences have too long a tail (skewness {slack.example_skewness:+.1f}) for "
            f"{comparison.rows:,} examples, so the bound is one for any distribution, and the "
            "interval crosses the margin"
        )
    if comparison.tail.width(slack, confidence) > 0.0:
        return Code.QUALITY_UNDECIDED, (
            "Nearly all differences are harms, so the bound on that side is one for any "
            "distribution, and it crosses the margin"
        )
    return Code.QUALITY_UNDECIDED, "The interval crosses the margin"


def _why_one_seed_is_too_few(slack: CrossedMean) -> str:
    if slack.examples == NO_EXAMPLES:
        return (
            "It was reported without examples, so with one seed its spread is unknown: "
            "declare two or more seeds."
        )
    return (
        "With one seed the interval covers the choice of examples only, not the choice of "
        "seed, so nothing is proven about the arm: declare two or more seeds."
    )


def _what_settles_it(judgement: MetricJudgement, comparison: Comparison, needed: SampleSize) -> str:
    seeds = f"about {needed.seeds} seeds instead of {judgement.seeds}"
    examples = (
        f"about {needed.examples or 0:,} validation examples instead of {judgement.examples:,}"
    )
    if needed.seeds is not None and needed.examples is not None:
        return f"{seeds} would settle it, or {examples}"
    if needed.seeds is not None:
        only = judgement.examples == NO_EXAMPLES
        return f"{seeds} would settle it" + ("" if only else f"; {_NO_EXAMPLES_WOULD}")
    if needed.examples is not None:
        return f"more seeds alone would not settle it, {examples} would"
    if needed.both is not None:
        return (
            f"neither more seeds nor more examples alone would settle it; about {needed.both[0]} "
            f"seeds with {needed.both[1]:,} validation examples would"
        )
    at_margin = abs(comparison.slack.mean) <= AT_MARGIN * (judgement.margin or 0.0)
    why = "the difference is at the margin" if at_margin else "seeds and examples differ too much"
    return f"even {MOST_SEEDS} seeds would not settle it: {why}"


_NO_EXAMPLES_WOULD = "no number of examples would, since the seeds differ too much"


def _numbers(judgement: MetricJudgement) -> dict[str, Number]:
    return {
        "metric": judgement.metric,
        "part": judgement.part,
        "delta": judgement.delta.estimate,
        "lower": judgement.delta.lower,
        "upper": judgement.delta.upper,
        "limit": judgement.limit,
        "seeds": judgement.seeds,
        "examples": judgement.examples,
        "seeds_needed": judgement.seeds_needed,
        "examples_needed": judgement.examples_needed,
    }
