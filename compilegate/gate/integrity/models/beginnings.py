"""Do the seeds of an arm begin their trainings as several seeds do? Pure.

A seed makes other weights, other batches or another dropout, so that the loss of the first step is
its own. It is the one loss that no noise of a device has touched: seeds that were ignored share it
to the last digits, however far apart their trainings end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from compilegate.evidence import EvidenceRecord, FloatArray, Replicate
from compilegate.gate.reasons import Code, Reason, Subject

FEWEST_SEEDS = 2
SAME_LOSS = 1e-6
"""The share of a loss by which those of other weights or batches differ at least."""
OTHER_LOSSES = 1e-3
"""The share by which another arm's seeds must differ. Where all begin alike, as with a last layer
of zeros, the first loss says nothing of seeds."""
LEAST_LOSS = 1e-30
MOST_ALIKE = 4
"""One seed in so many may begin nearly as another one by chance."""


def seeds_begin_alike(
    records: Mapping[Replicate, EvidenceRecord],
) -> Iterator[tuple[Replicate, Reason]]:
    """Replicates of an arm whose trainings all begin with one loss, while another arm's seeds each
    begin with their own."""
    by_arm: dict[str, dict[int, float]] = {}
    for (arm, seed), record in records.items():
        if record.steps is not None and len(record.steps.loss):
            by_arm.setdefault(arm, {})[seed] = float(record.steps.loss[0])
    spread = {
        arm: _spread(np.array(list(firsts.values())))
        for arm, firsts in by_arm.items()
        if len(firsts) >= FEWEST_SEEDS
    }
    if not any(map(_are_their_own, (by_arm[arm] for arm in spread))):
        return
    for arm, share in spread.items():
        if share > SAME_LOSS:
            continue
        first, *others = by_arm[arm]
        told = (
            f"the training begins with the loss of seed {first}, and the seeds of another arm each "
            "begin with their own: see whether the program uses its seed."
        )
        for seed in others:
            yield (arm, seed), Subject(seed).fails(Code.STEPS_SEEDS_ALIKE, told)


def _are_their_own(firsts: Mapping[int, float]) -> bool:
    """Whether (nearly) all seeds begin with losses of their own: one odd seed says nothing."""
    losses = np.sort(np.array(list(firsts.values())))
    gaps = np.diff(losses) > OTHER_LOSSES * max(float(np.abs(losses).max()), LEAST_LOSS)
    return int(gaps.sum()) >= max(1, len(losses) - 1 - len(losses) // MOST_ALIKE)


def _spread(losses: FloatArray) -> float:
    return float(np.ptp(losses)) / max(float(np.abs(losses).max()), LEAST_LOSS)
