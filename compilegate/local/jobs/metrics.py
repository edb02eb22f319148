"""Scalars that a job prints, caught by the regular expressions of its MetricDefinitions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MetricDefinition:
    """A metric's name, and the expression whose first group is its value."""

    name: str
    pattern: re.Pattern[str]


class MetricCatcher:
    """Reads a job's lines and keeps the last value of each metric."""

    def __init__(self, definitions: Sequence[MetricDefinition]) -> None:
        self._definitions = definitions
        self._last: dict[str, tuple[float, float]] = {}

    def read(self, line: str, timestamp: float) -> None:
        """Look for metrics in one line, printed at `timestamp` (seconds since the epoch)."""
        for definition in self._definitions:
            for match in definition.pattern.finditer(line):
                value = _number(match)
                if value is not None:
                    self._last[definition.name] = (value, timestamp)

    def final_metrics(self) -> list[dict[str, Any]]:
        """FinalMetricDataList of DescribeTrainingJob.

        A metric whose last value is NaN or infinite is left out: whoever reads it then fails,
        instead of comparing with something that is no number.
        """
        return [
            {"MetricName": name, "Value": value, "Timestamp": timestamp}
            for name, (value, timestamp) in self._last.items()
            if math.isfinite(value)
        ]


def _number(match: re.Match[str]) -> float | None:
    text = match.group(1) if match.re.groups else match.group(0)
    try:
        return float(text)
    except (TypeError, ValueError):
        return None
