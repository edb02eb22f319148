"""Scales: from values to positions, with round numbers for the ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

_FEW_DECADES = 4
"""With more of them there is no room for ticks within."""
_MOST_DECADES = 6


@dataclass(frozen=True)
class Scale:
    """Maps [low, high] to [start, end]; `start` may lie right of `end` to turn an axis around."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        share = (self._place(value) - self._place(self.low)) / (
            self._place(self.high) - self._place(self.low)
        )
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values within the scale, about `most` of them."""
        return self._decade_ticks() if self.logarithmic else self._round_ticks(most)

    def _place(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.logarithmic else value

    def _round_ticks(self, most: int) -> list[float]:
        step = _round_step((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [index * step for index in range(first, last + 1)]

    def _decade_ticks(self) -> list[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        # So many decades that their ticks would meet are told by a few of them.
        each = -(-len(decades) // _MOST_DECADES)
        factors = (1, 2, 5) if len(decades) <= _FEW_DECADES else (1,)
        ticks = [factor * 10.0**decade for decade in decades[::each] for factor in factors]
        return [tick for tick in ticks if self.low <= tick <= self.high]


def spread(low: float, high: float) -> tuple[float, float]:
    """The range itself, or one around it when both ends are the same."""
    if high > low:
        return low, high
    room = abs(low) * 0.1 or 1.0
    return low - room, high + room


def tick_text(value: float) -> str:
    """A tick's number, without trailing zeros and with a real minus sign."""
    if abs(value) >= 1e6:
        text = f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    else:
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "0" if value == 0 else text.replace("-", "\N{MINUS SIGN}")


def _round_step(step: float) -> float:
    size = 10.0 ** math.floor(math.log10(step))
    return next((factor * size for factor in (1, 2, 5) if factor * size >= step), 10 * size)
