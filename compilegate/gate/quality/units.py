"""The units in which the gate speaks of a metric: points for fractions, nats for log loss."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """How a metric's values are shown: `value / size` of them, followed by `name`."""

    name: str
    """Empty where the unit is the metric's own and not known."""
    size: float
    decimals: int | None
    """None: four significant digits, for values of any size."""

    def amount(self, value: float, *, signed: bool = False) -> str:
        """A difference of the metric, such as ``0.21 points`` or ``+0.0131 nats``."""
        return f"{self.number(value, signed=signed)} {self.name}".rstrip()

    def number(self, value: float, *, signed: bool = False) -> str:
        """The same without the unit's name."""
        # `z`: what rounds to zero is not shown as minus zero.
        sign = "+z" if signed else "z"
        precision = ".4g" if self.decimals is None else f".{self.decimals}f"
        return f"{value / self.size:{sign}{precision}}"


POINTS = Unit(name="points", size=0.01, decimals=2)
"""Percentage points: accuracy 0.95 against 0.94 is one point."""
NATS = Unit(name="nats", size=1.0, decimals=4)
OWN = Unit(name="", size=1.0, decimals=None)

_UNITS = {
    "accuracy": POINTS,
    "balanced_accuracy": POINTS,
    "macro_f1": POINTS,
    "micro_f1": POINTS,
    "auroc": POINTS,
    "calibration_error": POINTS,
    "log_loss": NATS,
}


def unit_of(metric: str) -> Unit:
    """The unit of a metric; its own, unnamed, where the gate does not know the metric."""
    return _UNITS.get(metric, OWN)
