"""The model that is released: is it as good as its arm?

What ships is one model, that of the first declared seed. An arm that is as good on average may hold
one seed that is far worse, and if that is the first, users get it. To release the median seed
instead would be to choose after training, by the very examples that judge, and the model that is
registered would change with them. So the first seed ships, and has a bound of its own.

The bound is two margins, since single models vary more than means do: where seeds spread by half a
margin, an equally good arm meets it in all but one of a thousand experiments. What counts is the
smaller of two differences: to the baseline's mean, and to the baseline's model of the same seed,
which would be released instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from compilegate.gate.quality.compared_arms import Replicates, metric_by_seed
from compilegate.gate.quality.metrics import MetricUndefinedError, MetricValues
from compilegate.gate.reasons import Code, Reason, failure
from compilegate.gate.settings import GateSettings, MetricGuard

MOST_MARGINS = 2.0
"""How much worse than the baseline the released model may be, in margins."""


def released_is_worse(
    settings: GateSettings, seed: int, before: Replicates, after: Replicates, values: MetricValues
) -> list[Reason]:
    """The reasons against a first model that is far worse than the baseline, by metric.

    The replicates are of the same seeds, the released one first.
    """
    found: list[Reason | None] = []
    for metric, guard in settings.metrics.items():
        # What a metric lacks is said of the evidence.
        with suppress(MetricUndefinedError):
            both = [metric_by_seed(metric, guard, arm, values) for arm in (before, after)]
            found.append(_is_worse(metric, guard, seed, both[0], both[1]))
    return [reason for reason in found if reason is not None]


def _is_worse(
    metric: str, guard: MetricGuard, seed: int, before: Sequence[float], after: Sequence[float]
) -> Reason | None:
    if guard.margin is None or not before or not after:
        return None
    mean = float(np.mean(before))
    margin = guard.margin * abs(mean) if guard.relative else guard.margin
    sign = 1.0 if guard.direction == "higher" else -1.0
    harm = min(sign * (mean - after[0]), sign * (before[0] - after[0]))
    if not harm > MOST_MARGINS * margin:
        return None
    return failure(
        Code.QUALITY_RELEASED_WORSE,
        f"{metric} of the model that would be released (seed {seed}) is {after[0]:.5g}, and "
        f"{mean:.5g} in the baseline: worse by {harm / margin:.1f} margins, and {MOST_MARGINS:g} "
        "are the most for a single model.",
        metric=metric,
        seed=seed,
        value=after[0],
        harm_in_margins=harm / margin,
    )
