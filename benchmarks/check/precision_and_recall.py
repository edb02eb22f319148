"""How often `compilegate check` is right, and how much it finds, on scripts that nobody here wrote.

    python benchmarks/check/precision_and_recall.py SOURCES [--half held-out] [--write docs/PAGE.md]

SOURCES is a folder that holds what labels.csv names, and nothing of it is part of this repository:
of a GitHub repository `SOURCES/OWNER/NAME` at the commit of the label, of a package from PyPI the
unpacked wheel in `SOURCES/pypi/NAME-VERSION`. `--fetch-commands` prints the commands that get them.

labels.csv has a row for each place that a person found by reading: `expected` (a finding is due),
`expected-later` (due, and overlooked by the person until the check found it), `allowed` (a finding
is no mistake, nor is its absence); and for each script `no-error` where none of severity error is
due. A finding on a labelled script that no row speaks of is a mistake.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compilegate.check.checking import check_paths
from compilegate.check.findings import Finding, Severity

LABELS = Path(__file__).with_name("labels.csv")
DUE = frozenset({"expected", "expected-later"})
"""What a finding is due for."""

NEAR = 2
"""A finding may be this many lines away from its label: a call that begins a line above."""

HALVES = {
    "development": "The development half",
    "held-out": "The held-out half",
    "second": "The second held-out set",
    "third": "The third held-out set",
    "fourth": "The fourth held-out set, of kinds that were in no other",
    "fifth": "The fifth held-out set",
}
"""The first two are halves of one set; the others were found and labelled later."""

START, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass(frozen=True)
class Label:
    """One row of labels.csv."""

    rule: str
    line: int
    verdict: str


@dataclass
class Script:
    """One labelled script."""

    source: str
    version: str
    path: str
    half: str
    labels: list[Label] = field(default_factory=list)

    def file(self, sources: Path) -> Path:
        """Where it lies."""
        if self.source.startswith("pypi:"):
            return sources / "pypi" / f"{self.source[5:]}-{self.version}" / self.path
        return sources / self.source / self.path

    @property
    def error_free(self) -> bool:
        """Whether no finding of severity error is due in it."""
        return any(label.verdict == "no-error" for label in self.labels)


@dataclass
class Count:
    """What one rule found that was due, what it found that was not, and what it missed."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    sought: bool = False
    """Whether a person looked for all its places; recall cannot be told otherwise."""

    @property
    def precision(self) -> float | None:
        """How much of what was found was right."""
        found = self.right + self.wrong
        return self.right / found if found else None

    @property
    def recall(self) -> float | None:
        """How much of what is there was found."""
        due = self.right + self.missed
        return self.right / due if due and self.sought else None


def read_labels(path: Path = LABELS) -> list[Script]:
    """The labelled scripts, in the order of the file."""
    scripts: dict[tuple[str, str, str], Script] = {}
    with path.open(newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            key = (row["source"], row["version"], row["path"])
            script = scripts.setdefault(key, Script(*key, row["half"]))
            script.labels.append(Label(row["rule"], int(row["line"]), row["label"]))
    return list(scripts.values())


def compare(script: Script, findings: Sequence[Finding], counts: dict[str, Count]) -> Iterable[str]:
    """Count the findings of one script against its labels; a line for each mistake."""
    due = [label for label in script.labels if label.verdict in DUE]
    allowed = [label for label in script.labels if label.verdict == "allowed"]
    met: set[Label] = set()
    for finding in findings:
        count = counts[finding.rule]
        near = [
            label
            for label in (*due, *allowed)
            if label.rule == finding.rule and abs(label.line - finding.line) <= NEAR
        ]
        exact = [label for label in near if label in due]
        if exact:
            new = [label for label in exact if label not in met]
            if new:
                met.add(min(new, key=lambda label: abs(label.line - finding.line)))
                count.right += 1
        elif not near:
            count.wrong += 1
            yield f"not due:  {_place(script, finding.line)} {finding.rule}: {finding.message}"
    for label in due:
        counts[label.rule].sought |= label.verdict == "expected"
        if label not in met:
            counts[label.rule].missed += 1
            yield f"missed:   {_place(script, label.line)} {label.rule}"
    for finding in findings:
        if script.error_free and finding.severity is Severity.ERROR:
            yield f"an error, in a good script: {_place(script, finding.line)} {finding.rule}"


def _place(script: Script, line: int) -> str:
    return f"{script.source} {script.path}:{line}"


def measured(
    scripts: Sequence[Script], sources: Path
) -> tuple[dict[str, Count], list[str], list[str]]:
    """Check every labelled script together with the files beside it."""
    counts: dict[str, Count] = defaultdict(Count)
    mistakes: list[str] = []
    absent: list[str] = []
    for script in scripts:
        file = script.file(sources)
        if not file.is_file():
            absent.append(f"{script.source} {script.version} {script.path}")
            continue
        checked = check_paths(sorted(file.parent.glob("*.py")))
        findings = [each for each in checked.findings if each.path == file]
        mistakes += compare(script, findings, counts)
    return counts, mistakes, absent


def table(counts: dict[str, Count]) -> list[str]:
    """The table of a page."""
    lines = ["| rule | found and due | not due | missed | precision | recall |",
             "|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    total = Count(sought=True)
    for rule, count in sorted(counts.items()):
        lines.append(_row(f"`{rule}`", count))
        total.right += count.right
        total.wrong += count.wrong
        total.missed += count.missed
    return [*lines, _row("**all**", total)]


def _row(name: str, count: Count) -> str:
    def share(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    return (
        f"| {name} | {count.right} | {count.wrong} | {count.missed} "
        f"| {share(count.precision)} | {share(count.recall)} |"
    )


def fetch_commands(scripts: Sequence[Script]) -> list[str]:
    """What to run in SOURCES to get the sources, in a shell."""
    lines: list[str] = []
    for source, version in dict.fromkeys((each.source, each.version) for each in scripts):
        if source.startswith("pypi:"):
            name = source[5:]
            lines.append(
                f"pip download --no-deps --dest pypi {name}=={version} && "
                f"python -m zipfile -e pypi/{name}-{version}-*.whl pypi/{name}-{version}"
            )
        else:
            lines.append(
                f"git clone --filter=blob:none https://github.com/{source} {source} && "
                f"git -C {source} checkout {version}"
            )
    return lines


def report(scripts: Sequence[Script], sources: Path) -> tuple[list[str], list[str], list[str]]:
    """The lines of the page, the mistakes, and the scripts that were not there."""
    lines: list[str] = []
    mistakes: list[str] = []
    absent: list[str] = []
    for half, title in HALVES.items():
        chosen = [script for script in scripts if script.half == half]
        if not chosen:
            continue
        counts, wrong, missing = measured(chosen, sources)
        places = len({(each.source, each.version) for each in chosen})
        lines += ["", f"{title}: {len(chosen) - len(missing)} scripts of {places} sources.",
                  "", *table(counts)]  # fmt: skip
        mistakes += [f"[{half}] {each}" for each in wrong]
        absent += missing
    return lines, mistakes, absent


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the page where one is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("sources", type=Path, nargs="?")
    parser.add_argument("--half", choices=tuple(HALVES))
    parser.add_argument("--write", type=Path, help="the page that gets the table")
    parser.add_argument("--fetch-commands", action="store_true")
    given = parser.parse_args(arguments)
    scripts = [each for each in read_labels() if given.half in {None, each.half}]
    if given.fetch_commands:
        print("\n".join(fetch_commands(scripts)))
        return 0
    if given.sources is None or not given.sources.is_dir():
        print(f"{given.sources}: a folder of sources is needed; --fetch-commands says what goes in")
        return 2
    lines, mistakes, absent = report(scripts, given.sources)
    print("\n".join(mistakes + lines))
    if absent:
        print(f"\nnot there: {len(absent)}, for example {absent[0]}")
    if given.write is not None:
        if absent:
            print(f"{given.write}: not written, for the sources are not complete")
            return 1
        page = given.write.read_text(encoding="utf-8")
        before, _, rest = page.partition(START)
        _, _, after = rest.partition(END)
        given.write.write_text(
            before + START + "\n" + "\n".join(lines).strip() + "\n\n" + END + after,
            encoding="utf-8",
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
