"""Times that were made of other times: no clock gives the same steps twice, not even scaled.

Two jobs that do the same work on the same data take their steps in times that resemble each other:
long texts take long in both. But each clock adds its own noise, a hundredth or a thousandth of a
step. Steps that are another job's steps times a constant, to one part in fifty thousand, in their
order or in another, were computed from these and not measured. So were blocks of a candidate that
are the baseline's times a constant.

Copies that had noise added, or were rounded to less than a ten-thousandth of a step in both arms,
are not seen: they look like work that resembles itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from compilegate.evidence import EvidenceRecord, FloatArray, Replicate
from compilegate.gate.reasons import Code, Reason, Subject, clipped
from compilegate.gate.speed.steady import WARM_UP, are_durations

NOISE = 2e-5
"""The share of a step that two clocks differ by at least."""
MOST_ALIKE = 0.5
"""The share of the steps that may be a constant multiple all the same."""
ROUNDED_ALIKE = 0.95
"""The share that may be one but for rounding, which makes chance likelier."""
FEWEST_LEVELS = 10
"""Times that differ by more than clocks do: where they were rounded to a few values, or hardly vary
at all, their ratios repeat."""
COARSE = 10.0 * NOISE
COARSEST_DIGIT = 1e-4
"""The last decimal of times, as a share of a step, down to which rounding is told from a copy: of
honest times of the same work that are rounded to milliseconds, most are alike."""
LEAST_DISTINCT = 0.9
"""The share of times that differ from each other: where many repeat, as on a coarse clock, two arms
have the same times in another order."""
SAME = 1e-7
"""The share of a step by which times in another order may differ: of many, the quantiles agree."""
MOST_IN_ANOTHER_ORDER = 0.8
MOST_STEPS = 5000
"""Steps that are compared, from the first on."""
MOST_DECIMALS = 9


def find_copied_times(
    records: Mapping[Replicate, EvidenceRecord], baseline: str
) -> dict[Replicate, list[Reason]]:
    """By replicate, whose times its own were made of. Between a candidate and the baseline, the
    candidate is to blame."""
    found: dict[Replicate, list[Reason]] = defaultdict(list)
    times = {key: own for key, record in records.items() for own in _steps(record)}
    for one, other in combinations(times, 2):
        factor = constant_multiple(times[one], times[other])
        if factor is None:
            continue
        for of, whose, times_as_long in ((one, other, 1.0 / factor), (other, one, factor)):
            if of[0] != baseline or whose[0] == baseline:
                found[of].append(_copied(of, whose, times_as_long))
    for key, record in records.items():
        found[key] += _copied_blocks(key, record)
    return {key: reasons[:1] for key, reasons in found.items() if reasons}


def _copied(of: Replicate, whose: Replicate, factor: float) -> Reason:
    return Subject(of[1]).fails(
        Code.STEPS_TIMES_OF_ANOTHER,
        f"its step times are those of {clipped(whose[0], 80)!r}, seed {whose[1]}, times "
        f"{factor:.4g}: two clocks never agree like that, so they were computed, not measured.",
        other_arm=whose[0],
        other_seed=whose[1],
        factor=factor,
    )


def _copied_blocks(of: Replicate, record: EvidenceRecord) -> Iterator[Reason]:
    blocks = record.paired
    if blocks is None:
        return
    before, after = blocks.baseline_seconds, blocks.candidate_seconds
    if not (are_durations(before) & are_durations(after)).all():
        return
    factor = _in_this_order(before, after)
    if factor is not None:
        yield Subject(of[1]).fails(
            Code.STEPS_TIMES_OF_ANOTHER,
            "in the steps that were taken in turns, its own times are the baseline's times "
            f"{factor:.4g}: two clocks never agree like that, so they were computed, not measured.",
            factor=factor,
        )


def _steps(record: EvidenceRecord) -> Iterator[FloatArray]:
    if record.steps is None:
        return
    seconds = record.steps.seconds[:MOST_STEPS]
    if len(seconds) >= WARM_UP + FEWEST_LEVELS and are_durations(seconds).all():
        yield seconds


def constant_multiple(one: FloatArray, other: FloatArray) -> float | None:
    """The number by which the times of the one, in their order or in any, are those of the other;
    None where there is none. First steps compile, and say nothing."""
    if min(map(_relative_digit, (one, other))) > COARSEST_DIGIT:
        return None
    count = min(len(one), len(other))
    in_order = _in_this_order(one[WARM_UP:count], other[WARM_UP:count])
    return _in_any_order(np.sort(one), np.sort(other)) if in_order is None else in_order


def _in_this_order(one: FloatArray, other: FloatArray) -> float | None:
    ratios = other / one
    factor = float(np.median(ratios))
    rounding = min(_last_digit(other), COARSEST_DIGIT * float(np.median(other)))
    for alike, least in (
        (np.abs(ratios / factor - 1.0) <= NOISE, MOST_ALIKE),
        (np.abs(other - factor * one) <= rounding, ROUNDED_ALIKE),
    ):
        if float(alike.mean()) >= least and _vary(one[alike]):
            return factor
    return None


def _in_any_order(one: FloatArray, other: FloatArray) -> float | None:
    """The same of sorted times, of which a few may be others."""
    if min(len(np.unique(each)) / len(each) for each in (one, other)) < LEAST_DISTINCT:
        return None
    middle = len(other) // 2
    for place in range(middle - WARM_UP, middle + WARM_UP + 1):
        if not 0 <= place < len(one):
            continue
        factor = float(other[middle] / one[place])
        scaled = one * factor
        nearest = np.clip(np.searchsorted(scaled, other), 1, len(scaled) - 1)
        apart = np.minimum(np.abs(scaled[nearest] - other), np.abs(scaled[nearest - 1] - other))
        alike = apart <= SAME * other
        if float(alike.mean()) >= MOST_IN_ANOTHER_ORDER and _vary(other[alike]):
            return factor
    return None


def _vary(times: FloatArray) -> bool:
    """Whether they differ by more than two clocks do."""
    return len(np.unique(np.round(np.log(times) / COARSE))) >= FEWEST_LEVELS


def _relative_digit(times: FloatArray) -> float:
    return _last_digit(times) / float(np.median(times))


def _last_digit(times: FloatArray) -> float:
    """The last decimal that any of the times has; zero where that is beyond rounding."""
    for decimals in range(MOST_DECIMALS):
        if np.array_equal(np.round(times, decimals), times):
            return 10.0**-decimals
    return 0.0
