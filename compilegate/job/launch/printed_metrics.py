"""Catches metrics in what a script prints, as SageMaker does: the last value counts.

Each metric has a variable ``COMPILEGATE_PRINTED_NAME``, which holds the regular expression whose
first group is the number.
"""

from __future__ import annotations

import re
from typing import Dict, Mapping, Optional

from compilegate.job.names import PRINTED_VARIABLE

LONGEST_LINE = 65_536
"""Bytes. What has no end by then is looked at in pieces."""


class PrintedMetrics:
    """The last value of each metric in the lines that were read."""

    def __init__(self, expressions: Mapping[str, str]) -> None:
        self._expressions = {name: re.compile(text) for name, text in expressions.items()}
        self.values: Dict[str, float] = {}

    @classmethod
    def declared(cls, variables: Mapping[str, str]) -> Optional["PrintedMetrics"]:
        """Those that the job is told to look for; None if there are none."""
        named = {
            name[len(PRINTED_VARIABLE) :]: text
            for name, text in variables.items()
            if name.startswith(PRINTED_VARIABLE)
        }
        return cls(named) if named else None

    def read(self, line: bytes) -> None:
        """Look for all of them in one line."""
        text = line.decode(errors="replace")
        for name, expression in self._expressions.items():
            for found in expression.finditer(text):
                try:
                    self.values[name] = float(found.group(1))
                except (TypeError, ValueError):  # the group caught nothing, or what is no number
                    continue


class Lines:
    """Cuts a stream into lines, whatever pieces it comes in."""

    def __init__(self, metrics: PrintedMetrics) -> None:
        self._metrics = metrics
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Read the lines that are whole by now."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            self._metrics.read(line)
        if len(self._rest) > LONGEST_LINE:
            self.end()

    def end(self) -> None:
        """Read what is left as a line of its own."""
        self._metrics.read(self._rest)
        self._rest = b""
