"""How often `compilegate check` is right, and how much it finds, on scripts that nobody here wrote.

    python -m benchmarks.check CLONES             the open set, with each mistake
    python -m benchmarks.check CLONES --sealed    the sealed set, figures alone
    python -m benchmarks.check --fetch            what to run in CLONES to get the sources

CLONES is a folder with OWNER/NAME of each repository at the commit of the label; nothing of it is
part of this repository. labels.toml names repository, commit, path and digest of each script, the
compiler for which it is checked, and the places that a person found by reading it: `due` (a finding
is expected) and `allowed` (a finding is no mistake, nor is its absence). Labels were written before
the rules. A finding that no label speaks of is a mistake. The sealed scripts are read by nobody who
works on the rules: they are run once, when the work is done.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compilegate.check.checking import Checked, check_paths

LABELS = Path(__file__).with_name("labels.toml")
NEAR = 2
"""A finding may be this many lines away from its label: a call that begins a line above."""


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
        """The rows of the table."""
        if self.framework == "tensorflow":
            return "TensorFlow"
        names = {"torch-compile": "torch.compile", "neuron": "Neuron"}
        return names.get(self.compiler, "XLA, Training Compiler")

    def file(self, clones: Path) -> Path:
        """Where it lies."""
        return clones / self.repository / self.path


@dataclass
class Count:
    """What was found that was due, what was found that was not, what was missed."""

    scripts: int = 0
    right: int = 0
    wrong: int = 0
    missed: int = 0
    all_clear: int = 0
    """Scripts in which something is due and of which nothing was said."""

    @property
    def precision(self) -> float:
        """How much of what was found was right."""
        return self.right / max(self.right + self.wrong, 1)

    @property
    def recall(self) -> float:
        """How much of what is there was found."""
        return self.right / max(self.right + self.missed, 1)


def read_labels() -> list[Script]:
    """The labelled scripts, in the order of the file."""
    rows = tomllib.loads(LABELS.read_text(encoding="utf-8"))["script"]
    return [
        Script(**{**row, "due": tuple(row["due"]), "allowed": tuple(row["allowed"])})
        for row in rows
    ]


def compare(script: Script, checked: Checked, file: Path, count: Count) -> list[str]:
    """Count the findings in one script against its labels; a line for each mistake."""
    due = [_place(each) for each in script.due]
    allowed = [_place(each) for each in script.allowed]
    found = [
        (each.rule, each.cell, each.line, each.message)
        for each in checked.findings
        if each.path == file
    ]
    met: set[tuple[str, int | None, int]] = set()
    mistakes: list[str] = []
    count.scripts += 1
    for rule, cell, line, message in found:
        near = [each for each in due if _near(each, (rule, cell, line))]
        new = [each for each in near if each not in met]
        if new:
            met.add(min(new, key=lambda each: abs(each[2] - line)))
            count.right += 1
        elif not near and not any(_near(each, (rule, cell, line)) for each in allowed):
            count.wrong += 1
            mistakes.append(f"not due: {script.repository} {script.path}:{line} {rule}: {message}")
    for each in due:
        if each not in met:
            count.missed += 1
            mistakes.append(f"missed:  {script.repository} {script.path}:{each[2]} {each[0]}")
    if due and not found:
        count.all_clear += 1
    return mistakes


def _place(label: str) -> tuple[str, int | None, int]:
    rule, _, place = label.partition(" ")
    cell, _, line = place.rpartition(":")
    return rule, int(cell) if cell else None, int(line)


def _near(one: tuple[str, int | None, int], other: tuple[str, int | None, int]) -> bool:
    return one[:2] == other[:2] and abs(one[2] - other[2]) <= NEAR


def measure(scripts: Sequence[Script], clones: Path) -> tuple[dict[str, Count], list[str]]:
    """Check each script with the files beside it; counts by route, and the mistakes."""
    counts: dict[str, Count] = defaultdict(Count)
    mistakes: list[str] = []
    for script in scripts:
        file = script.file(clones)
        digest = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "no file"
        if digest != script.digest:
            raise SystemExit(f"{file} has digest {digest}, expected {script.digest}")
        beside = sorted({file, *file.parent.glob("*.py")})
        checked = check_paths(beside, (script.compiler,))
        mistakes += compare(script, checked, file, counts[script.route])
    return counts, mistakes


def table(counts: dict[str, Count]) -> str:
    """The rows of a page."""
    every = Count(*(sum(getattr(each, name) for each in counts.values()) for name in vars(Count())))
    lines = [
        "| route | scripts | right | not due | missed | precision | recall | false all-clears |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for route, each in [*sorted(counts.items()), ("all", every)]:
        lines.append(
            f"| {route} | {each.scripts} | {each.right} | {each.wrong} | {each.missed} "
            f"| {each.precision:.2f} | {each.recall:.2f} | {each.all_clear} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    summary, _, _ = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("clones", type=Path, nargs="?")
    parser.add_argument("--sealed", action="store_true", help="the sealed set, figures alone")
    parser.add_argument("--fetch", action="store_true", help="print what gets the sources")
    given = parser.parse_args()
    chosen = "sealed" if given.sealed else "open"
    scripts = [each for each in read_labels() if each.set == chosen]
    if given.fetch:
        for each in dict.fromkeys((one.repository, one.commit) for one in scripts):
            print(f"git clone --filter=blob:none https://github.com/{each[0]} {each[0]} && "
                  f"git -C {each[0]} checkout {each[1]}")  # fmt: skip
        return 0
    if given.clones is None:
        parser.error("CLONES is missing: the folder of the sources; --fetch says what goes in")
    counts, mistakes = measure(scripts, given.clones)
    if not given.sealed:
        print("\n".join([*mistakes, ""]))
    print(table(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
