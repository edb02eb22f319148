"""Scalars that a job prints, caught by the regular expressions of its MetricDefinitions."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compilegate.local.errors import StepError
from compilegate.local.jobs.printed.reading import CHUNK_BYTES, CHUNK_SECONDS

_PROGRAM = Path(__file__).with_name("reading.py")
_POLL_SECONDS = 0.2
_MARK_SECONDS = 1.0


@dataclass(frozen=True)
class MetricDefinition:
    """A metric's name, and the expression whose first group is its value."""

    name: str
    pattern: re.Pattern[str]


@dataclass
class PrintedAt:
    """Where in a log each second of a job begins."""

    marks: list[tuple[int, float]] = field(default_factory=list)

    def mark(self, offset: int, timestamp: float) -> None:
        """At `timestamp` (seconds since the epoch) the log was `offset` bytes long."""
        if not self.marks or timestamp - self.marks[-1][1] >= _MARK_SECONDS:
            self.marks.append((offset, timestamp))


def final_metrics(
    definitions: Sequence[MetricDefinition],
    log: Path,
    printed_at: PrintedAt,
    given_up: Callable[[], bool],
    say: Callable[[str], None],
) -> list[dict[str, Any]] | None:
    """FinalMetricDataList of DescribeTrainingJob: the last value of each metric in a job's log.

    A metric whose last value is NaN or infinite is left out: whoever reads it then fails, instead
    of comparing with something that is no number. So is one whose expression does not come to an
    end, which is said. None as soon as `given_up` says so. Raises StepError when the log cannot be
    read.
    """
    wanted = list(definitions) if log.is_file() and printed_at.marks else []
    while wanted:
        found, stuck = _read_log(wanted, log, printed_at, given_up)
        if found is None:
            return None
        if stuck is None:
            return [
                {"MetricName": name, "Value": value, "Timestamp": timestamp}
                for name, (value, timestamp) in found.items()
                if math.isfinite(value)
            ]
        name = wanted.pop(stuck).name
        say(
            f"metric {name} has no value: its Regex takes over {CHUNK_SECONDS:.0f} s for "
            f"{CHUNK_BYTES >> 10} KiB of the log, for it has too many ways to match"
        )
    return []


def _read_log(
    wanted: Sequence[MetricDefinition],
    log: Path,
    printed_at: PrintedAt,
    given_up: Callable[[], bool],
) -> tuple[Mapping[str, tuple[float, float]] | None, int | None]:
    """What the program found, and the definition that it was killed over, if it was."""
    request = {
        "log": str(log),
        "patterns": [[each.name, each.pattern.pattern, each.pattern.flags] for each in wanted],
        "marks": printed_at.marks,
    }
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C at the terminal reaches the runner only
    )
    told: bytes | None = json.dumps(request).encode()
    with process:
        while True:
            try:
                output, said = process.communicate(told, timeout=_POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                told = None
                if given_up():
                    process.kill()
    at, _, result = output.decode().rpartition("\n")
    if process.returncode == -signal.SIGPROF:
        return {}, int(at.rpartition("\n")[2] or 0)
    if process.returncode == 0:
        return json.loads(result), None
    if given_up():
        return None, None
    last = said.decode(errors="replace").strip().rpartition("\n")[2]
    why = last or f"exit code {process.returncode}"
    raise StepError(f"the metrics in {log} could not be read: {why}")
