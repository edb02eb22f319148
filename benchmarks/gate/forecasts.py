"""Does the forecast say how likely an equal candidate passes?

    python benchmarks/gate/forecasts.py [--draws 300] [--processes 2] [--anew] [PART OF A NAME]

Of each design executions are drawn whose arms are equally good. How many pass by quality is the
truth; every tenth is a pilot, and what the forecast says from it is held against the truth: on
average at most 12 points off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
from proof import Counts, Program, foretold, main, table
from simulated import Generator, guards
from worse import Kind, fewer_right

from compilegate.gate.forecast import Design, forecast
from compilegate.gate.settings import GateSettings

POINTS = 12
MARGINS = {200: 0.026, 500: 0.018, 1000: 0.014, 2000: 0.011, 5000: 0.009}
WIDER = {2: 2.2, 3: 1.0, 5: 0.65}
"""Times as wide for so many seeds: chances between a tenth and nine tenths tell most."""
KINDS = {
    (name := f"{rows} rows, {seeds} seeds"): Kind(
        name, fewer_right, margin=MARGINS[rows] * WIDER[seeds], seeds=seeds, rows=rows, harm=0.0
    )
    for rows, seeds in product(MARGINS, WIDER)
}


def judged(kind: Kind, random: Generator, number: int) -> Iterator[str]:
    """Whether the candidate's quality passes; and of a pilot, the chance foretold in per cent."""
    (candidate,) = kind.execution(random).judge().candidates
    yield str(candidate.metrics[0].outcome)
    if number % 10 == 0:
        settings = GateSettings(metrics=guards(accuracy=kind.margin))
        told = forecast(settings, Design(kind.seeds, 1, kind.rows), candidate)[0]
        yield f"{told.chance:.0%}"


def page(found: Mapping[str, Counts]) -> tuple[str, list[str]]:
    """The table, and which figures are missed."""
    rows, missed = [], []
    for name, counts in found.items():
        draws, truth = counts["draws"], 100 * counts.get("pass", 0) / counts["draws"]
        pilots = foretold(counts)
        mean, off = np.mean(pilots), np.mean(np.abs(np.subtract(pilots, truth)))
        chance = 0.0 if draws >= PROGRAM.draws else 150.0 / draws**0.5
        if abs(mean - truth) > POINTS + chance:  # three standard errors of so few draws
            missed.append(f"{name}: {mean:.0f}% foretold, {truth:.0f}% passed")
        points = f"{100 * KINDS[name].margin:.2f}"
        rows.append((name, points, draws, f"{truth:.0f}%", f"{mean:.0f}%", f"{off:.0f}"))
    header = ("Design", "Margin in points", "Executions", "Passed", "Foretold", "A pilot is off by")
    return table(header, rows), missed


PROGRAM = Program(300, KINDS, judged, page)

if __name__ == "__main__":
    main("forecasts")
