"""Count how often `compilegate check` is right on public training scripts, against labels.

    python -m benchmarks.check CLONES             the open set, with each mistake
    python -m benchmarks.check CLONES --sealed    the sealed set, figures alone
    python -m benchmarks.check --fetch            print the commands that get the sources

The peer is a person: labels.toml names repository, commit, path and digest of each script, its
compiler, and the places that a person found by reading it: `due` (a finding is expected) and
`allowed` (neither a finding nor its absence is a mistake). A finding without a label is a mistake.
Labels were written before the rules. Nobody who works on the rules reads the sealed scripts: they
are run once, when the work is done. CLONES has OWNER/NAME of each repository at the label's commit.
"""

from __future__ import annotations

import hashlib
import sys
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from benchmarks import results
from compilegate.check.checking import CheckResult, check_paths

LABELS = Path(__file__).with_name("labels.toml")
NEAR = 2
"""A finding may be this many lines away from its label: a call that begins a line above."""
ROUTES = {"torch-compile": "torch.compile", "neuron": "Neuron"}
COLUMNS = ["route", "scripts", "right", "not due", "missed", "precision", "recall"]
COLUMNS.append("false all-clears")
Place = tuple[str, int | None, int]
"""Rule, cell of a notebook, line."""


@dataclass(frozen=True)
class Script:
    """One labelled script."""

    set: str
    repository: str
    commit: str
    path: str
    digest: str
    compiler: str
    framework: str
    due: tuple[str, ...]
    allowed: tuple[str, ...]

    @property
    def route(self) -> str:
        """The row of the table."""
        xla = "XLA, Training Compiler"
        return "TensorFlow" if self.framework == "tensorflow" else ROUTES.get(self.compiler, xla)


@dataclass
class Count:
    """Findings and faults of some scripts."""

    scripts: int = 0
    right: int = 0  # findings that were due
    wrong: int = 0  # findings that were neither due nor allowed
    missed: int = 0
    all_clear: int = 0  # scripts with a fault and without a finding

    def cells(self) -> list[str]:
        """The counts as cells of the table."""
        precision = self.right / max(self.right + self.wrong, 1)
        recall = self.right / max(self.right + self.missed, 1)
        counts = map(str, (self.scripts, self.right, self.wrong, self.missed))
        return [*counts, f"{precision:.2f}", f"{recall:.2f}", str(self.all_clear)]


def read_labels() -> list[Script]:
    """The labelled scripts, in the order of the file."""
    rows = tomllib.loads(LABELS.read_text(encoding="utf-8"))["script"]
    return [
        Script(**{**row, "due": tuple(row["due"]), "allowed": tuple(row["allowed"])})
        for row in rows
    ]


def compare(script: Script, checked: CheckResult, file: Path, count: Count) -> list[str]:
    """Count the findings in one script against its labels; a line for each mistake."""
    due = [_place(each) for each in script.due]
    allowed = [_place(each) for each in script.allowed]
    found = [each for each in checked.findings if each.path == file]
    met: set[Place] = set()
    mistakes: list[str] = []
    where = f"{script.repository} {script.path}"
    count.scripts += 1
    for each in found:
        place = each.rule, each.cell, each.line
        near = [label for label in due if _near(label, place)]
        new = [label for label in near if label not in met]
        if new:
            met.add(min(new, key=lambda label: abs(label[2] - place[2])))
            count.right += 1
        elif not near and not any(_near(label, place) for label in allowed):
            count.wrong += 1
            mistakes.append(f"not due: {where}:{each.line} {each.rule}: {each.message}")
    missed = [each for each in due if each not in met]
    count.missed += len(missed)
    count.all_clear += bool(due and not found)
    return mistakes + [f"missed:  {where}:{line} {rule}" for rule, _, line in missed]


def _place(label: str) -> Place:
    rule, _, place = label.partition(" ")
    cell, _, line = place.rpartition(":")
    return rule, int(cell) if cell else None, int(line)


def _near(one: Place, other: Place) -> bool:
    return one[:2] == other[:2] and abs(one[2] - other[2]) <= NEAR


def measure(scripts: Sequence[Script], clones: Path) -> tuple[dict[str, Count], list[str]]:
    """Check each script with the files beside it; counts by route, and the mistakes."""
    counts: dict[str, Count] = defaultdict(Count)
    mistakes: list[str] = []
    for script in scripts:
        file = clones / script.repository / script.path
        digest = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "no file"
        if digest != script.digest:
            raise SystemExit(f"{file} has digest {digest}, expected {script.digest}")
        checked = check_paths(sorted({file, *file.parent.glob("*.py")}), (script.compiler,))
        mistakes += compare(script, checked, file, counts[script.route])
    return counts, mistakes


def rows(counts: dict[str, Count]) -> list[list[str]]:
    """The rows of the table, with the sums of all routes."""
    sums = [sum(getattr(each, it.name) for each in counts.values()) for it in fields(Count)]
    return [
        [route, *each.cells()] for route, each in [*sorted(counts.items()), ("all", Count(*sums))]
    ]


def main() -> None:
    """Measure and print."""
    parser = results.parser(__doc__)
    parser.add_argument("clones", type=Path, nargs="?")
    parser.add_argument("--sealed", action="store_true", help="the sealed set, figures alone")
    parser.add_argument("--fetch", action="store_true", help="print what gets the sources")
    options = parser.parse_args()
    chosen = "sealed" if options.sealed else "open"
    scripts = [each for each in read_labels() if each.set == chosen]
    if options.fetch:
        for name, commit in dict.fromkeys((each.repository, each.commit) for each in scripts):
            clone = f"git clone --filter=blob:none https://github.com/{name} {name}"
            print(f"{clone} && git -C {name} checkout {commit}")
        return
    if options.clones is None:
        parser.error("CLONES is missing: the folder of the sources, which --fetch helps to make")
    counts, mistakes = measure(scripts, options.clones)
    if not options.sealed:
        print("\n".join([*mistakes, ""]))
    results.publish("check-labels", COLUMNS, rows(counts), to_file=options.write)


if __name__ == "__main__":
    sys.exit(main())
