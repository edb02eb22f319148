"""The summary of the zoo's rows, and docs/zoo.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.zoo.row import ALIKE, CANNOT_TELL, DIED, PLANTED, REFUSED, WRONG, Row

MOST_UNSURE = 8
LEAST_PLANTED = 0.9
"""As a share of three errors each: `aot_eager`, which compiles them, cannot compile every model."""


class Summary:
    """The names of what is counted, by what it is."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = len(rows)
        errors = [(row["name"], each) for row in rows for each in row["probe"]["planted"]]

        able = [row for row in rows if row["truth"]["answer"] != REFUSED]

        def names(said: str, *true: str) -> list[str]:
            """Those that torch can compile, of which the probe says this and this is true."""
            told = [row for row in able if row["probe"]["said"] == said]
            return [row["name"] for row in told if not true or row["truth"]["answer"] in true]

        def true(answer: str) -> list[str]:
            return [each["name"] for each in rows if each["truth"]["answer"] == answer]

        def planted(said: str) -> list[str]:
            return [f"{name} ({each['kind']})" for name, each in errors if each["said"] == said]

        printed = [row for row in rows if row["probe"].get("printed") == ALIKE]
        otherwise = [row["name"] for row in printed if row["probe"]["said"] != ALIKE]
        self.faults = {
            "false alarms": names(WRONG, "sound", "unclear", "left to eager mode"),
            "compiled wrongly by torch, and missed": names(ALIKE, "wrong"),
            f"planted errors missed, of {len(errors)}": planted(ALIKE),
            "deaths": names(DIED) + planted(DIED),
            "printed as alike, which the gate would not accept": otherwise,
        }
        self.unsure = names(CANNOT_TELL)
        self._others = {
            "planted errors of which it cannot tell": planted(CANNOT_TELL),
            "compiled wrongly by torch, and found": names(WRONG, "wrong"),
            "torch cannot compile": true(REFUSED),
            "torch leaves to eager mode": true("left to eager mode"),
            "what is true is unclear": true("unclear"),
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


def page(rows: Path, read: Callable[[Path], Sequence[Row]]) -> str:
    """All of docs/zoo.md."""
    parts = [_OPENING]
    for folder in sorted(rows.glob("*/*/inductor"), key=_release, reverse=True):
        version, precision = folder.parts[-3:-1]
        found = read(folder)
        parts.append(f"## torch {version}, {precision}\n")
        parts.append("\n".join(Summary(found).lines()) + "\n")
        parts.append(_table(found))
    return "\n".join(parts)


def _release(folder: Path) -> tuple[list[int], str]:
    return [int(part) for part in folder.parts[-3].split(".")], folder.parts[-2]


def _table(rows: Sequence[Row]) -> str:
    figures = {
        "step, ms": "step_ms",
        "probe, s": "probe_seconds",
        "compiling, s": "compile_seconds",
        "graphs": "graphs",
        "breaks": "graph_breaks",
    }
    lines = [["architecture", "the probe says", "true", "planted", *figures]]
    lines.append(["---"] * len(lines[0]))
    for row in rows:
        probe, truth = row["probe"], row["truth"]
        caught = sum(each["said"] == WRONG for each in probe["planted"])
        lines.append(
            [
                row["name"],
                _words(probe["said"], probe.get("why"), probe.get("ratio")),
                _words(truth["answer"], truth.get("why"), None),
                f"{caught} of {len(probe['planted'])}",
                *(_number(probe.get(key)) for key in figures.values()),
            ]
        )
    return "\n".join(f"| {' | '.join(each)} |" for each in lines) + "\n"


def _words(answer: str, why: str | None, ratio: float | None) -> str:
    if answer == ALIKE and ratio is not None:
        return f"alike, {ratio:.2g} times rounding"
    return f"{answer}: {why.replace('|', '/').replace('_', ' ')}" if why else answer


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.3g}"


_OPENING = """# The zoo: a hundred architectures

```sh
make zoo                # takes hours on one core, and resumes where it was stopped
```

A hundred architectures that nobody here designed, in small: from torchvision, timm, transformers,
diffusers, torch_geometric, DeepCTR, stable-baselines3 and PyTorch's examples. Each is
trained for ten steps by an ordinary loop with the five lines of
[your own training script](own-script.md), compiled by Inductor, on a processor.

**What is true** is found without Compilegate's code (`benchmarks/zoo/truth.py`). Eager, compiled
and float64 compute the same four batches from the same weights, and NumPy compares loss, outputs,
gradients and buffers. Rounding is the error of eager, by its own kernels and by others. Compiled
code with at most 10 times that error is sound. With more than 20 times that error in most batches,
or where it is zero and should not be, it is wrong. What lies between is unclear.

**Three errors are planted** in each (`benchmarks/zoo/planted.py`): gradients that are scaled, lost
or transposed, statistics that are not updated, outputs that are off, and wrong operations. Only
errors that NumPy sees, too, are planted, and none where torch's `aot_eager`, which compiles the
rest of the graph, cannot. The column has how many the probe calls wrong.

**Figures**: the median compiled step; the probe, with the search for a small reproduction where
something is wrong; compilation from a warm cache, since the truth was found first. One thread, on a
machine that may do other work: compare no speeds by them.

Below is what was run so far: each section says of how many architectures.
"""
