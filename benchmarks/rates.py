"""Rates of rare outcomes with their intervals, and the Markdown tables that show them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

Z = 1.959964


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95% interval of a proportion (Wilson, JASA 1927)."""
    share, spread = successes / trials, Z**2 / trials
    middle = share + spread / 2.0
    half = Z * math.sqrt(share * (1.0 - share) / trials + spread / (4.0 * trials))
    return max((middle - half) / (1.0 + spread), 0.0), min((middle + half) / (1.0 + spread), 1.0)


def rate(successes: int, trials: int) -> str:
    """The rate in per cent, with its interval."""
    low, high = wilson(successes, trials)
    return f"{100 * successes / trials:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
