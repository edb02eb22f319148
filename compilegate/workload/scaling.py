"""The learning rate of an arm that follows from the baseline's, by the examples of a step. Pure.

Linear scaling keeps the path of plain gradient descent when steps are fewer and larger (Goyal et
al., 2017); with Adam the square root keeps the noise of a step's update (Malladi et al., 2022). The
warm-up follows by itself: it is a share of the steps, so that it takes as many examples as before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ScalingRule = Literal["linear", "square-root"]


@dataclass(frozen=True, kw_only=True)
class ScaledRate:
    """A learning rate, and what it follows from."""

    rule: ScalingRule
    base_rate: float
    base_batch: int
    """Examples of one of the baseline's steps, of all its processes together."""
    batch: int
    """Examples of one of this arm's steps."""

    @property
    def factor(self) -> float:
        ratio = self.batch / self.base_batch
        return ratio if self.rule == "linear" else ratio**0.5

    @property
    def rate(self) -> float:
        # Twelve digits: a rate is not written as 0.0010500000000000002.
        return float(f"{self.base_rate * self.factor:.12g}")

    @property
    def sentence(self) -> str:
        """How the rate came about, for whoever reads it."""
        return (
            f"learning_rate {self.rate:g} is the baseline's {self.base_rate:g} times "
            f"{self.factor:.4g} ({self.rule}: {self.batch} examples a step for {self.base_batch})"
        )
