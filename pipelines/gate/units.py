"""The units in which the gate speaks of a metric: points for fractions, nats for log loss."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """How a metric's values are shown: `value / size` of them, followed by `name`."""

    name: str
    size: float
    decimals: int

    def amount(self, value: float, *, signed: bool = False) -> str:
        """A difference of the metric, such as ``0.21 points`` or ``+0.0131 nats``."""
        return f"{self.number(value, signed=signed)} {self.name}"

    def number(self, value: float, *, signed: bool = False) -> str:
        """The same without the unit's name."""
        # `z`: what rounds to zero is not shown as minus zero.
        sign = "+z" if signed else "z"
        return f"{value / self.size:{sign}.{self.decimals}f}"


POINTS = Unit(name="points", size=0.01, decimals=2)
"""Percentage points: accuracy 0.95 against 0.94 is one point."""
NATS = Unit(name="nats", size=1.0, decimals=4)


def unit_of(metric: str) -> Unit:
    """The unit of a guarded metric."""
    return NATS if metric == "log_loss" else POINTS
