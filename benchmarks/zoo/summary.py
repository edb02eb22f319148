"""The summary of the zoo's rows: counts by kind of mistake, and the cells of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.zoo.row import ALIKE, CANNOT_TELL, DIED, PLANTED, WRONG, Row
from benchmarks.zoo.truth import LEFT, REFUSED, SOUND, UNCLEAR

MOST_UNSURE = 8
LEAST_PLANTED = 0.9
"""As a share of three errors each: `aot_eager`, which compiles them, cannot compile every model."""
FIGURES = {
    "step, ms": "step_ms",
    "probe, s": "probe_seconds",
    "compilation, s": "compile_seconds",
    "graphs": "graphs",
    "breaks": "graph_breaks",
}
COLUMNS = ["architecture", "probe", "truth", "planted errors found", *FIGURES]


class Summary:
    """The names of architectures and planted errors, by what became of them."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = len(rows)
        errors = [(row["name"], each) for row in rows for each in row["probe"]["planted"]]
        able = [row for row in rows if row["truth"]["answer"] != REFUSED]

        def probed(answer: str, *true: str) -> list[str]:
            """Those that torch can compile, with this answer of the probe and such a truth."""
            found = [row for row in able if row["probe"]["answer"] == answer]
            return [row["name"] for row in found if not true or row["truth"]["answer"] in true]

        def true(answer: str) -> list[str]:
            return [row["name"] for row in rows if row["truth"]["answer"] == answer]

        def planted(answer: str) -> list[str]:
            return [f"{name} ({each['kind']})" for name, each in errors if each["answer"] == answer]

        printed = [row for row in rows if row["probe"].get("printed") == ALIKE]
        accepted = "printed as alike, which the gate would not accept"
        self.faults = {
            "false alarms": probed(WRONG, SOUND, UNCLEAR, LEFT),
            "compiled wrongly by torch, and missed": probed(ALIKE, WRONG),
            f"planted errors missed, of {len(errors)}": planted(ALIKE),
            "deaths": probed(DIED) + planted(DIED),
            accepted: [row["name"] for row in printed if row["probe"]["answer"] != ALIKE],
        }
        self.unsure = probed(CANNOT_TELL)
        self._others = {
            "planted errors on which it cannot tell": planted(CANNOT_TELL),
            "compiled wrongly by torch, and found": probed(WRONG, WRONG),
            "torch cannot compile": true(REFUSED),
            "torch leaves to eager mode": true(LEFT),
            "truth is unclear": true(UNCLEAR),
        }
        self._is_planted = len(errors) >= LEAST_PLANTED * PLANTED * len(rows)

    def reaches_the_aim(self, expected: int) -> bool:
        """Whether all rows are there, and the probe was right in each."""
        complete = self._rows == expected and self._is_planted
        return complete and not any(self.faults.values()) and len(self.unsure) <= MOST_UNSURE

    def lines(self) -> list[str]:
        """A line for each count."""
        counted = {**self.faults, "cannot tell": self.unsure, **self._others}
        return [f"- architectures: {self._rows}"] + [
            f"- {title}: {len(each)}{': ' * bool(each)}{', '.join(each)}"
            for title, each in counted.items()
        ]


def cells(row: Row) -> list[str]:
    """A row of the table."""
    probe, truth = row["probe"], row["truth"]
    caught = sum(each["answer"] == WRONG for each in probe["planted"])
    figures = [probe.get(key) for key in FIGURES.values()]
    return [
        row["name"],
        _words(probe["answer"], probe.get("why"), probe.get("ratio")),
        _words(truth["answer"], truth.get("why"), None),
        f"{caught} of {len(probe['planted'])}",
        *("" if each is None else f"{each:.3g}" for each in figures),
    ]


def _words(answer: str, why: str | None, ratio: Any) -> str:
    if answer == ALIKE and ratio is not None:
        return f"alike, {ratio:.2g} times rounding"
    return f"{answer}: {why.replace('|', '/').replace('_', ' ')}" if why else answer
