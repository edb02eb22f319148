"""The course of the training losses: do they fall, and as the baseline's do? Pure.

Losses begin where the weights, the data and the loss function put them, and end where the recipe
leads. What both arms share of these must show in both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from compilegate.evidence import EvidenceRecord, FloatArray
from compilegate.gate.reasons import Code, Outcome, Reason

NORMAL_MEDIAN = 1.4826
"""The standard deviation of normal values over the median of their distances from zero."""
PART = 5
"""Losses are compared between the first and the last fifth of the steps."""
LEAST_STEPS = 20
"""Fewer steps show nothing of a course."""
LEAST_FALL = 0.05
"""The share of the loss at first that a training loses which has learnt anything; a guess."""


RISING = 4.0
"""Standard errors by which a loss rises that does not by luck."""
FEWEST_STARTS = 2
"""Seeds; one first batch may differ by itself."""
MOST_APART_AT_FIRST = 0.25
"""The share of the baseline's first losses by which a candidate's may differ."""
MOST_APART_AT_END = 0.5
"""The share of the baseline's fall by which the last losses may differ."""
SEEDS_APART = 5.0
"""Standard deviations of the baseline's seeds that are more than chance."""
BATCHES_APART = 3.0
"""Standard errors that are more than the batches' own noise explains, where the arms' batches come
in another order: two seeds may be close to each other by luck."""


def is_flat(losses: FloatArray) -> bool:
    """Whether the losses of all steps do not fall from the first fifth to the last beyond what the
    spread of their means explains, and cannot have fallen by a twentieth either, or clearly rise:
    what is merely noisy or short may have learnt.

    One loss for all steps is flat however few there are.
    """
    if len(losses) > 2 and float(np.ptp(losses)) == 0.0:
        return True
    if len(losses) < LEAST_STEPS:
        return False
    first, last = losses[: len(losses) // PART], losses[-(len(losses) // PART) :]
    noise = np.sqrt((first.var(ddof=1) + last.var(ddof=1)) / len(first))
    fall = first.mean() - last.mean()
    if fall < -RISING * noise:
        return True
    # A loss that rises by luck may have fallen as far as one that stays.
    return bool(fall <= noise and max(fall, 0.0) + 2.0 * noise <= LEAST_FALL * abs(first.mean()))


def starts_elsewhere(
    baseline: Mapping[int, EvidenceRecord], candidate: Mapping[int, EvidenceRecord]
) -> Iterator[Reason]:
    """A doubt of a candidate whose trainings all begin at another loss than the baseline's with the
    same seed: they should begin with the same weights and the same batch."""
    starts = [
        (_first_loss(baseline[seed]), _first_loss(record))
        for seed, record in candidate.items()
        if seed in baseline
    ]
    pairs = [
        (before, after) for before, after in starts if before is not None and after is not None
    ]
    if len(pairs) < FEWEST_STARTS:
        return
    before, after = np.array(pairs).T
    apart = after - before
    falls = [float(np.ptp(each.steps.loss)) for each in baseline.values() if each.steps is not None]
    # A loss that begins next to zero is no measure of itself.
    usual = max(float(np.median(np.abs(before))), float(np.median(falls)))
    noise = [_noise(each) for each in (*baseline.values(), *candidate.values())]
    of_batches = BATCHES_APART * np.sqrt(2.0) * float(np.median(noise))
    limit = max(MOST_APART_AT_FIRST * usual, SEEDS_APART * float(before.std(ddof=1)), of_batches)
    if not (apart > limit).all() and not (apart < -limit).all():
        return
    first, other = float(np.median(before)), float(np.median(after))
    yield Reason(
        Code.STEPS_OTHER_START,
        Outcome.INCONCLUSIVE,
        f"The training loss of the first step is {other:.3g}, and {first:.3g} in the baseline: the "
        "arms do not begin with the same weights, the same data or the same loss.",
        {"loss": other, "baseline_loss": first},
    )


def ends_elsewhere(
    baseline: Mapping[int, EvidenceRecord], candidate: Mapping[int, EvidenceRecord]
) -> Iterator[Reason]:
    """A doubt of a candidate of the same recipe whose training losses all end far from the
    baseline's: what was evaluated may be another model than what was trained."""
    ends = [
        (_course(baseline[seed]), _course(record))
        for seed, record in candidate.items()
        if seed in baseline
    ]
    pairs = [(before, after) for before, after in ends if before is not None and after is not None]
    if len(pairs) < FEWEST_STARTS:
        return
    (begun, before), (_, after) = (np.array(each).T for each in zip(*pairs, strict=True))
    apart = after - before
    fall = float(np.median(begun - before))
    noise = [_noise_at_end(each) for each in (*baseline.values(), *candidate.values())]
    of_batches = BATCHES_APART * np.sqrt(2.0) * float(np.median(noise))
    limit = max(MOST_APART_AT_END * fall, SEEDS_APART * float(before.std(ddof=1)), of_batches)
    if fall <= 0.0 or (not (apart > limit).all() and not (apart < -limit).all()):
        return
    last, other = float(np.median(before)), float(np.median(after))
    yield Reason(
        Code.STEPS_OTHER_END,
        Outcome.INCONCLUSIVE,
        f"The training loss ends at {other:.3g}, and at {last:.3g} in the baseline, with the same "
        "recipe: see whether the model that was evaluated is the one that was trained.",
        {"loss": other, "baseline_loss": last},
    )


def _course(record: EvidenceRecord) -> tuple[float, float] | None:
    """The mean losses of the first and the last fifth of the steps, where there are enough."""
    steps = record.steps
    if steps is None or len(steps.loss) < LEAST_STEPS:
        return None
    part = len(steps.loss) // PART
    return float(steps.loss[:part].mean()), float(steps.loss[-part:].mean())


def _first_loss(record: EvidenceRecord) -> float | None:
    steps = record.steps
    return None if steps is None or not len(steps.loss) else float(steps.loss[0])


def _noise(record: EvidenceRecord) -> float:
    """The standard deviation of single losses at first, by how much each differs from the next: a
    loss that falls is none of it."""
    steps = record.steps
    if steps is None or len(steps.loss) < LEAST_STEPS:
        return 0.0
    differences = np.abs(np.diff(steps.loss[: len(steps.loss) // PART]))
    return NORMAL_MEDIAN * float(np.median(differences)) / math.sqrt(2.0)


def _noise_at_end(record: EvidenceRecord) -> float:
    """The standard error of the mean loss of the last fifth of the steps."""
    steps = record.steps
    if steps is None or len(steps.loss) < LEAST_STEPS:
        return 0.0
    last = steps.loss[-(len(steps.loss) // PART) :]
    return float(last.std(ddof=1)) / math.sqrt(len(last))
