"""Resolution: the smallest margin that a design can show, before it is run and after.

A design resolves a margin when a candidate that is exactly as good as the baseline passes in eight
of ten experiments. A smaller margin is not wrong, but the verdict will mostly be `inconclusive`,
and that can be known before anything is trained. The smallest such margin is

    (quantile at the confidence + quantile at 0.8) x standard error of the difference

with the same crossed effects and quantiles as the verdict (`difference_interval`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.special import ndtri, stdtrit

from compilegate.gate.quality.comparison import Comparison
from compilegate.gate.quality.noninferiority import outcome_of
from compilegate.gate.quality.units import unit_of
from compilegate.gate.reasons import Code, Note, Number, Outcome
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.gate.statistics.difference_interval import NO_EXAMPLES, CrossedMean
from compilegate.gate.statistics.failures import seeds_to_show
from compilegate.gate.statistics.multiplicity import level_for
from compilegate.gate.statistics.sample_size import MOST_SEEDS, POWER, rounded_up
from compilegate.gate.statistics.tails import examples_to_see, unseen_share


@dataclass(frozen=True)
class Design:
    """What is known of an experiment before it is run."""

    seeds: int
    candidates: int
    examples: int | None = None
    """Validation examples; None when their number is not known yet."""


def smallest_margin(difference: CrossedMean, confidence: float) -> float:
    """The smallest margin resolved by a design whose difference is known as well as this one's."""
    return difference.half_width(confidence) + difference.half_width(POWER)


def check_margins(settings: GateSettings, design: Design) -> tuple[str, ...]:
    """A sentence for each guarded margin: whether the design can show it, before anything has run.

    Without the number of examples the seeds alone count, and the smallest margin is truly larger.
    """
    confidence = level_for(max(design.candidates, 1), settings.confidence)
    return tuple(
        _check(metric, guard, guard.margin, design, confidence)
        + _least(metric, guard, design, confidence)
        for metric, guard in settings.metrics.items()
        if guard.margin is not None
    )


def never_passing(settings: GateSettings, design: Design) -> tuple[str, ...]:
    """A sentence for each reason why such a design passes no equally good candidate, so that
    nothing is trained in vain. None of them depends on what training shows."""
    confidence = level_for(max(design.candidates, 1), settings.confidence)
    found = [
        f"metrics.{metric}: {sentence}"
        for metric, guard in settings.metrics.items()
        if guard.margin is not None
        for sentence in (_too_few(metric, guard, design, confidence),)
        if sentence
    ]
    if design.seeds == 1 and settings.guarded:
        found.append("seeds: with one seed no candidate can pass; declare two or more")
    about_failures = check_failure_rate(settings, design)
    if about_failures is not None:
        found.append(f"max_failure_rate: {about_failures}")
    return tuple(found)


def check_failure_rate(settings: GateSettings, design: Design) -> str | None:
    """A sentence where so few seeds can never show the rate of failures that is asked for."""
    rate = settings.max_failure_rate
    if rate is None:
        return None
    needed = seeds_to_show(rate, level_for(max(design.candidates, 1), settings.confidence))
    if needed <= design.seeds:
        return None
    return (
        f"no candidate can pass: {rate:.2g} takes {needed:,} seeds without a failure, and "
        f"{design.seeds} are declared"
    )


def least_examples(metric: str, guard: MetricGuard, confidence: float) -> int | None:
    """The validation examples without which no candidate passes that is just as good; None where
    that depends on the data. For an area under a curve these are examples of the rarer class.

    A harm that is absent from so many examples must be smaller than the margin, at the largest size
    that one has: a flip, a lost positive, what is declared as `worst_example`, or, for errors in
    relation to their mean, the largest of so many normal errors. Longer tails take more.
    """
    margin = guard.margin
    if margin is None or guard.reported or guard.function is not None:
        return None
    if guard.relative:
        return _enough(metric, margin, confidence, _largest_normal)
    size = guard.worst_example or _SIZES_OF_ONE.get(metric)
    if size is None or size <= margin:
        return None
    return examples_to_see(margin / size, confidence)


_SIZES_OF_ONE = {"accuracy": 1.0, "micro_f1": 1.0, "balanced_accuracy": 1.0, "auroc": 0.5}
"""What one example of the class costs that is lost; of pairs, those that it won, which are half or
more."""
_POWERS = {"mse": 2, "mae": 1}
LONG_TAILED = 3
"""Degrees of freedom of Student's t: such errors have a variance, and their squares have none."""
_SIZES = tuple(round(10 * 1.1**step) for step in range(140))


def _largest_normal(examples: int, power: int) -> float:
    """About the largest of so many normal errors, to this power, over their mean."""
    largest = float(ndtri(1.0 - 0.5 / examples))
    return largest**power / (1.0 if power == 2 else math.sqrt(2.0 / math.pi)) - 1.0


def _largest_long_tailed(examples: int, power: int) -> float:
    """The same of errors that are Student's t with three degrees of freedom."""
    largest = float(stdtrit(LONG_TAILED, 1.0 - 0.5 / examples))
    return largest**power / (3.0 if power == 2 else 2.0 * math.sqrt(3.0) / math.pi) - 1.0


def _enough(
    metric: str, margin: float, confidence: float, largest: Callable[[int, int], float]
) -> int | None:
    """The examples whose largest error could be absent and stay within a relative margin."""
    power = _POWERS.get(metric)
    if power is None:
        return None
    enough = (
        count
        for count in _SIZES
        if largest(count, power) * unseen_share(count, confidence) < margin
    )
    return next(enough, None)


def _with_long_tails(metric: str, guard: MetricGuard, design: Design, confidence: float) -> str:
    """How many examples a relative margin takes where errors have a long tail."""
    if not guard.relative or guard.margin is None or guard.reported or guard.function is not None:
        return ""
    needed = _enough(metric, guard.margin, confidence, _largest_long_tailed)
    if needed is None or (design.examples is not None and design.examples >= needed):
        return ""
    return (
        f"about {rounded_up(needed):,} where errors have a long tail (Student's t with "
        f"{LONG_TAILED} degrees of freedom)"
    )


def _least(metric: str, guard: MetricGuard, design: Design, confidence: float) -> str:
    if design.seeds == 1:
        return ""
    told = _too_few(metric, guard, design, confidence)
    needed = least_examples(metric, guard, confidence)
    if design.examples is None and needed is not None:
        told = f"it takes {_examples(metric, needed)} or more"
    long_tailed = _with_long_tails(metric, guard, design, confidence)
    if told and long_tailed:
        return f"; {told}, and {long_tailed}"
    if long_tailed:
        return f"; it takes {long_tailed}"
    return f"; {told}" if told else ""


def _too_few(metric: str, guard: MetricGuard, design: Design, confidence: float) -> str:
    """Why no candidate that is as good passes with so few examples; nothing where one may."""
    needed = least_examples(metric, guard, confidence)
    if needed is None or design.examples is None:
        return ""
    # Half of the examples are of the rarer class at most.
    most = design.examples // 2 if metric == "auroc" else design.examples
    if most >= needed:
        return ""
    who = (
        "candidate that is as good"
        if metric in _SIZES_OF_ONE and guard.worst_example is None
        else "candidate"
    )
    return (
        f"no {who} can pass with {design.examples:,} validation examples: such a margin takes "
        f"{_examples(metric, needed)} or more"
    )


def _examples(metric: str, count: int) -> str:
    of_class = " of the rarer class" if metric == "auroc" else ""
    return f"{rounded_up(count):,} validation examples{of_class}"


def below_resolution(comparison: Comparison, confidence: float) -> Note | None:
    """A note when an undecided margin is smaller than what the evidence at hand can resolve."""
    if comparison.margin is None or comparison.slack.seed_variance is None:
        return None
    if outcome_of(comparison, confidence) is not Outcome.INCONCLUSIVE:
        return None
    smallest = max(
        smallest_margin(comparison.slack, confidence), comparison.unseen_harm(confidence)
    )
    if smallest <= comparison.margin:
        return None
    unit = unit_of(comparison.metric)
    where = "" if comparison.part is None else f" where {comparison.part}"
    sentence = (
        f"{comparison.metric}{where}: the margin is {unit.amount(comparison.margin)}, and "
        f"{comparison.slack.seeds} seeds with these examples can show {unit.amount(smallest)} at "
        "best. An equally good candidate would often stay undecided too."
    )
    numbers: dict[str, Number] = {
        "metric": comparison.metric,
        "margin": comparison.margin,
        "smallest": smallest,
    }
    return Note(Code.MARGIN_BELOW_RESOLUTION, sentence, numbers)


def _check(
    metric: str, guard: MetricGuard, margin: float, design: Design, confidence: float
) -> str:
    if design.seeds == 1:
        return (
            f"{metric}: with one seed no margin can be shown, since the spread between seeds "
            "cannot be seen: declare two or more seeds"
        )
    if guard.expected_seed_sd is None or guard.relative:
        return f"{metric}: {_why_unknown(guard)}"
    smallest = smallest_margin(_expected(guard.expected_seed_sd, design.seeds, design), confidence)
    unit = unit_of(metric)
    found = (
        f"{metric}: {design.seeds} seeds with a standard deviation of "
        f"{unit.amount(guard.expected_seed_sd)}{_of_examples(design)} "
        f"show a margin of {unit.amount(smallest)} at best"
    )
    if smallest <= margin:
        return f"{found}; the margin is {unit.amount(margin)}"
    return (
        f"{found}, and the margin is {unit.amount(margin)}: "
        f"{_remedy(guard.expected_seed_sd, margin, design, confidence)}"
    )


def _expected(seed_sd: float, seeds: int, design: Design) -> CrossedMean:
    """The difference of two arms that agree on every example but differ by seed.

    Seeds are taken to share nothing between the arms, and examples to show the least that they
    can: one flip. Both are what is known beforehand.
    """
    flip = 0.0 if design.examples is None else 1.0 / design.examples
    return CrossedMean(
        mean=0.0,
        seeds=seeds,
        examples=design.examples or NO_EXAMPLES,
        seed_variance=2.0 * seed_sd**2 / seeds,
        example_variance=flip**2,
        example_freedom=2.0,
        seed_sd=math.sqrt(2.0) * seed_sd,
    )


def _why_unknown(guard: MetricGuard) -> str:
    if guard.relative:
        return (
            "the margin is relative, so what it comes to is known after the first run, whose "
            "report then says whether it can be shown"
        )
    return (
        "whether the margin can be shown is not known before the first run; its report has the "
        "noise floor, to be declared as expected_seed_sd"
    )


def _of_examples(design: Design) -> str:
    return "" if design.examples is None else f" and {design.examples:,} examples"


def _remedy(seed_sd: float, margin: float, design: Design, confidence: float) -> str:
    for seeds in range(design.seeds + 1, MOST_SEEDS + 1):
        if smallest_margin(_expected(seed_sd, seeds, design), confidence) <= margin:
            return f"declare about {seeds} seeds, or a larger margin"
    return f"not even {MOST_SEEDS} seeds would do: declare a larger margin"
