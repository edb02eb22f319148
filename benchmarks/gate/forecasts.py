"""Does the forecast say how likely an equal candidate passes?

    python benchmarks/gate/forecasts.py [--draws 300] [--processes 2] [--anew] [PART OF A NAME]

Of each design executions are drawn whose arms are equally good. How many pass by quality is the
truth; every tenth is a pilot, and what the forecast says from it is held against the truth: on
average at most 12 points off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product

import numpy as np
from worse import Kind, fewer_right

from results import Counts, Page, Program, main, table  # isort: skip
from simulated import BASELINE, CANDIDATE, digest, execution, guards  # isort: skip
from compilegate.gate.forecast import Design, forecast
from compilegate.gate.settings import GateSettings

POINTS = 12
MARGINS = {200: 0.026, 500: 0.018, 1000: 0.014, 2000: 0.011, 5000: 0.009}
WIDER = {2: 2.2, 3: 1.0, 5: 0.65}
"""Times as wide for so many seeds: chances between a tenth and nine tenths tell most."""
KINDS = {
    f"{rows} rows, {seeds} seeds": (rows, seeds, MARGINS[rows] * WIDER[seeds])
    for rows, seeds in product(MARGINS, WIDER)
}


def counted(name: str, draws: int) -> Counter[str]:
    """Passes; and of the pilots, the sum of their forecasts and how far off they are, in points."""
    rows, seeds, margin = KINDS[name]
    kind, guard = Kind(name, fewer_right, "accuracy", margin, seeds, rows), guards(accuracy=margin)
    settings, design = GateSettings(metrics=guard), Design(seeds, 1, rows)
    found, foretold = Counter[str](), list[float]()
    for number in range(draws):
        random = np.random.default_rng([int(digest(name)[:8], 16), number])
        make = kind.draw(kind, random)
        keys = product((BASELINE, CANDIDATE), range(seeds))
        examples = {(arm, seed + 1): make(0.0, seed) for arm, seed in keys}
        (verdict,) = execution(examples, random, guard, kind.clock).verdict().candidates
        found["pass"] += str(verdict.metrics[0].outcome) == "pass"
        if number % 10 == 0:
            foretold += [it.chance for it in forecast(settings, design, verdict)][:1]
    truth = found["pass"] / draws
    found["pilots"] = len(foretold)
    found["foretold"] = round(100 * sum(foretold))
    found["off"] = round(100 * sum(abs(each - truth) for each in foretold))
    return found


def page(found: Mapping[str, Counts]) -> Page:
    """The table, and which figures are missed."""
    rows, missed = [], []
    for name, counts in found.items():
        truth, pilots = 100 * counts["pass"] / counts["draws"], counts["pilots"]
        foretold, off = counts["foretold"] / pilots, counts["off"] / pilots
        chance = 0.0 if counts["draws"] >= PROGRAM.draws else 150.0 / counts["draws"] ** 0.5
        if abs(foretold - truth) > POINTS + chance:  # three standard errors of so few draws
            missed.append(f"{name}: {foretold:.0f}% foretold, {truth:.0f}% passed")
        told = (f"{truth:.0f}%", f"{foretold:.0f}%", f"{off:.0f}")
        rows.append((name, f"{100 * KINDS[name][2]:.2f}", counts["draws"], *told))
    header = ("Design", "Margin in points", "Executions", "Passed", "Foretold", "A pilot is off by")
    return Page(table(header, rows), missed)


PROGRAM = Program("forecasts", 300, list(KINDS), counted, page)

if __name__ == "__main__":
    main(PROGRAM)
