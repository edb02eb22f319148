"""How much a small piece of work varies that should take the same time each time.

What varies here varies in a training step too: neighbours, clocks that change, cores that are
shared. The gate's own bound comes from the steps themselves; this says what to expect of them.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, Callable, Dict

import numpy as np

from compilegate.job.doctor.facts import Timing

_FEWEST, _MOST = 20, 400
_NUMBERS, _ROUNDS = 100_000, 20
_SECONDS = 0.8


def timed(on: str, once: Callable[[], float], seconds: float) -> Dict[str, Any]:
    """Repeat `once`, which returns the seconds that it took, for about so long; as `Timing`."""
    took = []
    until = time.perf_counter() + seconds
    while len(took) < _FEWEST or (time.perf_counter() < until and len(took) < _MOST):
        took.append(once())
    low, median, high, late = np.percentile(took, [25, 50, 75, 95])
    return asdict(
        Timing(
            on=on,
            median_seconds=float(median),
            spread=float((high - low) / 2 / median) if median > 0 else 0.0,
            late=float(late / median) if median > 0 else 1.0,
            repeats=len(took),
        )
    )


def time_cpu() -> Timing:
    """Exponentials of some numbers, in one thread: several would wait for one another."""
    numbers = np.random.default_rng(0).random(_NUMBERS, dtype=np.float32)
    work = np.empty_like(numbers)

    def once() -> float:
        start = time.perf_counter()
        for _ in range(_ROUNDS):
            np.exp(numbers, out=work)
        return time.perf_counter() - start

    once()  # the first one touches the memory
    return Timing(**timed("cpu", once, _SECONDS))
