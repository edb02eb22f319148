"""Compare the forecast of a pilot with how often an equal candidate then passes.

Executions of each design are drawn whose arms are equally good. How many pass by quality is the
truth; every tenth is a pilot, whose forecast may be 12 points off on average.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from benchmarks.gate.proof import Counts, Program, chances
from benchmarks.gate.simulated import Generator, guards
from benchmarks.gate.worse import Kind, fewer_right
from compilegate.gate.forecast import Design, forecast
from compilegate.gate.settings import GateSettings

POINTS = 12
MARGINS = {200: 0.026, 500: 0.018, 1000: 0.014, 2000: 0.011, 5000: 0.009}
WIDER = {2: 2.2, 3: 1.0, 5: 0.65}
"""Times as wide for so many seeds: chances between a tenth and nine tenths show most."""
KINDS = {
    (name := f"{rows} rows, {seeds} seeds"): Kind(
        name, fewer_right, margin=MARGINS[rows] * WIDER[seeds], seeds=seeds, rows=rows, harm=0.0
    )
    for rows, seeds in product(MARGINS, WIDER)
}


def outcomes(kind: Kind, random: Generator, number: int) -> Iterator[str]:
    """The outcome of the candidate's quality, and a pilot's forecast in per cent."""
    (candidate,) = kind.execution(random).judge().candidates
    yield str(candidate.metrics[0].outcome)
    if number % 10 == 0:
        settings = GateSettings(metrics=guards(accuracy=kind.margin))
        (found, *_) = forecast(settings, Design(kind.seeds, 1, kind.rows), candidate)
        yield f"{found.chance:.0%}"


def table(found: Mapping[str, Counts]) -> tuple[list[list[object]], list[str]]:
    """The rows, and the limits that are missed."""
    rows, missed = [], []
    for name, counts in found.items():
        draws, truth = counts["draws"], 100 * counts.get("pass", 0) / counts["draws"]
        pilots = chances(counts)
        mean, off = np.mean(pilots), np.mean(np.abs(np.subtract(pilots, truth)))
        chance = 0.0 if draws >= PROGRAM.draws else 150.0 / draws**0.5
        if abs(mean - truth) > POINTS + chance:  # three standard errors of so few draws
            missed.append(f"{name}: {mean:.0f}% forecast, {truth:.0f}% passed")
        points = f"{100 * KINDS[name].margin:.2f}"
        rows.append([name, points, draws, f"{truth:.0f}%", f"{mean:.0f}%", f"{off:.0f}"])
    return rows, missed


COLUMNS = ("design", "margin in points", "executions", "passed", "forecast", "a pilot is off by")
PROGRAM = Program(300, KINDS, outcomes, COLUMNS, table)
