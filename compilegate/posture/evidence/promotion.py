"""What a candidate's executions add up to: promoted, regressed, or neither. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TypeVar

from compilegate.posture.evidence.sequential import always_valid, fixed_interval, lower_bound
from compilegate.posture.policy import Policy
from compilegate.posture.state import Difference, Reference, Track

ALPHA = 0.05
"""The chance of a false promotion, or of a false regression, over all looks together."""
FALSE_REVERTS = 0.05
"""The chance that a candidate which is as good is ever reverted by what its audits measure: half of
it for all audits together, half for those that follow a failed one."""
CONFIRMATIONS = 2
"""A failed audit and so many more in a row are a regression, without any statistics of several
executions: with two, each at the gate's level, chance does not do that."""
SPENT_ON_LOOKS = 0.04
"""What of it the sequential test may spend; the rest is for passes of the gate in a row."""
_MOST_KEPT = 60
"""Looks and values that a record keeps; a year of weekly executions."""

_Item = TypeVar("_Item")


def keeps(before: tuple[_Item, ...], new: _Item) -> tuple[_Item, ...]:
    """With one more, unless it is empty; the oldest go where there are too many."""
    return (*before, new)[-_MOST_KEPT:] if new else before


def is_promoted(track: Track, policy: Policy) -> str:
    """Why the candidate may train alone; empty while it may not."""
    if track.passes >= policy.passes:
        return f"{track.passes} passes of the gate in a row"
    looks = _by_metric(track.looks)
    if not looks or len(track.looks) > policy.patience:
        return ""
    for differences in looks.values():
        if len(differences) != len(track.looks):
            return ""  # a metric that came or went: the executions are not about the same
        bound = lower_bound(
            [one.difference for one in differences],
            [one.standard_error for one in differences],
            alpha=SPENT_ON_LOOKS,
            looks=policy.patience,
        )
        if bound <= -differences[-1].margin:
            return ""
    return (
        f"{', '.join(looks)} within the margin over {len(track.looks)} executions together, by the "
        f"group-sequential test of {policy.patience} looks"
    )


def _by_metric(looks: Sequence[Sequence[Difference]]) -> dict[str, list[Difference]]:
    found: dict[str, list[Difference]] = {}
    for look in looks:
        for one in look:
            found.setdefault(one.metric, []).append(one)
    return found


def worse_in_audits(track: Track) -> str:
    """What the audits together prove to be worse; empty where they prove nothing."""
    looks = _by_metric(track.looks)
    for metric, differences in looks.items():
        found = always_valid(
            [one.difference for one in differences],
            [one.standard_error for one in differences],
            alpha=FALSE_REVERTS / 2 / len(looks),
        )
        margin = differences[-1].margin
        if found.upper < 0 and found.lower <= -margin:
            return (
                f"{metric} is worse than the baseline's by {-found.upper:.4g} at least over "
                f"{len(differences)} audits, and not shown to be within {margin:.4g}"
            )
    return ""


def worse_in_trial(trial: Track, number: int, policy: Policy) -> str:
    """What the audits since a failed one prove to be worse; empty where they prove nothing yet.

    The failed one is not among them, because it was chosen for being bad. A trial has an end, so
    its looks are planned ones; the trials of one promotion share their error, the first getting
    most.
    """
    looks = _by_metric(trial.looks)
    for metric, differences in looks.items():
        if len(differences) != len(trial.looks):
            continue
        found, errors = (
            [one.difference for one in differences],
            [one.standard_error for one in differences],
        )
        alpha = FALSE_REVERTS / 2 / len(looks) * 6 / (math.pi * number) ** 2
        upper = -lower_bound([-one for one in found], errors, alpha=alpha, looks=policy.patience)
        lower = lower_bound(found, errors, alpha=alpha, looks=policy.patience)
        margin = differences[-1].margin
        if upper < 0 and lower <= -margin:
            return (
                f"{metric} is worse than the baseline's by {-upper:.4g} at least over the "
                f"{len(differences)} audits after the one that failed"
            )
    return ""


def drift(alone: Sequence[Mapping[str, float]], reference: Reference) -> str:
    """What executions without a baseline make suspicious against the reference; empty if nothing.

    Either a single value that is worse than the reference by more than the margin, or a mean that
    is proven to be worse, however little. It only suspects: the data may have changed and not the
    candidate, which an audit tells apart, as it trains a baseline on the same data.
    """
    for metric, margin in reference.margins.items():
        values = [one[metric] for one in alone if metric in one]
        before = [one[metric] for one in reference.values if metric in one]
        if not values or not before:
            continue
        gap = fmean(before) - values[-1]
        if gap > margin:
            return f"{metric} is {gap:.4g} worse than its reference, with a margin of {margin:.4g}"
        share = ALPHA / (2 * len(reference.margins))
        now, then = always_valid(values, alpha=share), fixed_interval(before, alpha=share)
        if now.upper < then.lower:
            return (
                f"{metric} is worse than its reference by {then.lower - now.upper:.4g} at least, "
                f"over {len(values)} executions"
            )
    return ""
