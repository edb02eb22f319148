"""How often seeds fail: what the trained ones leave open, and how many would show more.

A bound on the mean over seeds holds for seeds that differ as the trained ones do. A compiler
that makes one training of ten diverge shows nothing of it in three: seven of ten such experiments
meet none, and no rule can tell them from a sound candidate. What the seeds do bound is the rate: k
seeds of which none failed exclude, at 95%, a rate above 1 - 0.05^(1/k), which is 63% for three,
26% for ten and 10% for twenty-nine (Clopper & Pearson, Biometrika 1934). So the verdict says what
stays open, and `[gate] max_failure_rate` asks for the seeds that close it.

A seed counts as failed when its job failed, or when its model loses more than the margin and what
chance explains: three standard deviations of the baseline's own seeds.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.special import betaincinv

from compilegate.evidence import FloatArray
from compilegate.gate.reasons import Code, Note, Outcome, Reason

BY_CHANCE = 3.0
"""Standard deviations of the baseline's seeds."""
MOST_SEEDS = 10_000


def failed_seeds(harms: FloatArray, baseline: FloatArray, margin: float) -> tuple[bool, ...]:
    """Which of the (seeds,) harms are failures, by the (seeds,) values of the baseline."""
    chance = BY_CHANCE * float(baseline.std(ddof=1)) if len(baseline) > 1 else 0.0
    return tuple(bool(harm > margin + chance) for harm in harms)


def highest_rate(seeds: int, failed: int, confidence: float) -> float:
    """The rate of failures that so many of so many seeds leave open."""
    if failed >= seeds:
        return 1.0
    return float(betaincinv(failed + 1, seeds - failed, confidence))


def lowest_rate(seeds: int, failed: int, confidence: float) -> float:
    """The rate of failures that so many of so many seeds show at least."""
    return 0.0 if not failed else float(betaincinv(failed, seeds - failed + 1, 1.0 - confidence))


def seeds_to_show(rate: float, confidence: float, failed: int = 0) -> int:
    """The seeds of which no more than `failed` may fail to show that the rate is lower."""
    return next(
        (
            seeds
            for seeds in range(failed + 1, MOST_SEEDS)
            if highest_rate(seeds, failed, confidence) <= rate
        ),
        MOST_SEEDS,
    )


def failed_in_any(by_metric: Iterable[tuple[bool, ...]]) -> int:
    """How many seeds failed by one metric or more; seeds are in the same order for each."""
    return sum(any(of_seed) for of_seed in zip(*by_metric, strict=False))


def judge_failures(
    seeds: int, failed: int, allowed: float | None, confidence: float
) -> Reason | Note:
    """What so many failures of so many seeds say of the rate; a note where none is asked for."""
    most = highest_rate(seeds, failed, confidence)
    met = f"{failed} of {seeds} seeds failed" if failed else f"None of {seeds} seeds failed"
    numbers = {"seeds": seeds, "failed": failed, "highest_rate": most, "allowed": allowed}
    if seeds == 1:
        met = "The only seed failed" if failed else "The only seed did not fail"
    leaves = f"{met}, which leaves open that up to {percent(most, down=False)} of seeds do"
    if allowed is None:
        return Note(Code.SEEDS_OPEN, f"{leaves}.", numbers)
    limit = f"{percent(allowed)} may"
    if most <= allowed:
        return Reason(
            Code.SEEDS_FAILURE_RATE,
            Outcome.PASS,
            f"{met}: {percent(most, down=False)} of seeds do at most, and {limit}.",
            numbers,
        )
    if lowest_rate(seeds, failed, confidence) > allowed:
        return Reason(
            Code.SEEDS_FAILURE_RATE,
            Outcome.FAIL,
            f"{met}: {percent(lowest_rate(seeds, failed, confidence))} of seeds do at least, and "
            f"{limit}.",
            numbers,
        )
    needed = seeds_to_show(allowed, confidence, failed)
    more = "without a failure" if not failed else f"with no more than {failed} failures"
    return Reason(
        Code.SEEDS_FAILURE_RATE,
        Outcome.INCONCLUSIVE,
        f"{leaves}; {limit}. {needed:,} seeds {more} would show it.",
        {**numbers, "seeds_needed": needed},
    )


def percent(rate: float, *, down: bool = True) -> str:
    """To whole per cent where that says enough; a bound is not rounded to the safe-looking side."""
    scaled = rate * 100.0
    shown = np.floor(scaled * 10.0) / 10.0 if down else np.ceil(scaled * 10.0) / 10.0
    return f"{scaled:.0f}%" if scaled >= 10.0 else f"{shown:.2g}%"
