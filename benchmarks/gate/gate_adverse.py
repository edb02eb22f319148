"""The designs that a bound is fooled by most easily: what passes at the margin, and at no harm.

    .venv/bin/python benchmarks/gate/gate_adverse.py [--experiments 400] [--keep FOLDER]
                        [--before CHECKOUT] [--write FILE.md] [PART OF A NAME]

Rows that repeat others, seeds that diverge, harm in few seeds, in few rows or with a tail that has
no variance, areas under curves of few positives, jobs that stall. Every candidate is worse by
exactly the margin in the population, or exactly as good. Some of these no rule can tell apart with
so few seeds or rows: the page says how many equal candidates any rule would have to refuse. With
`--before` an earlier gate judges the same experiments, that of another checkout of this repository
(`git worktree add CHECKOUT COMMIT`). With `--keep` a run that was cut short goes on where it
stopped (`gate_kept`).
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy
from gate_adverse_designs import CONFIDENCE, Adverse, adverse_designs
from gate_adverse_speed import SPEEDUPS, AdverseJobs, adverse_jobs, speed_verdicts
from gate_kept import KEPT
from gate_simulation import rate, table

from compilegate.gate.findings import Outcome
from compilegate.gate.quality import Replicates, compare_arms, outcome_of
from compilegate.gate.settings import GateSettings
from compilegate.job import Examples

HERE = Path(__file__).parent
HARMS = (1.0, 0.0)
MANY_ROWS = 20_000
"""From so many on, a design is met by a quarter of the experiments: each takes a second."""
ALLOWED = 1.0 - CONFIDENCE
NOT_ASKED = "not asked"


@dataclass(frozen=True)
class Counts:
    """What two gates said of the experiments of one design."""

    experiments: int
    now: list[Counter[str]]
    """At the margin and at no harm, or at each speed-up."""
    before: list[Counter[str]] = field(default_factory=list)
    """The earlier gate's; nothing where none was asked."""

    def rates(self, which: int, outcome: Outcome = Outcome.PASS) -> list[str]:
        """Before and now."""
        before = rate(self.before[which][outcome], self.experiments) if self.before else NOT_ASKED
        return [before, rate(self.now[which][outcome], self.experiments)]


def verdicts(design: Adverse, harm: float, count: int, stream: int) -> Counter[str]:
    """Outcomes of `count` experiments; `stream` seeds the random numbers."""
    generator = np.random.default_rng([stream, count])
    settings = GateSettings(metrics={design.metric: design.guard})
    found: Counter[str] = Counter()
    for _ in range(count):
        before, after = design.draw(generator, harm)
        quality = compare_arms(settings, _replicates(before), {"compiled": _replicates(after)}, {})
        found[str(outcome_of(quality["compiled"].comparisons[0], CONFIDENCE))] += 1
    return found


def _replicates(arm: list[Examples]) -> Replicates:
    return Replicates(examples=arm, reported=[{} for _ in arm])


def counted(count: int, only: str) -> Iterator[tuple[Adverse | AdverseJobs, int, Counter[str]]]:
    """Every design whose name has `only` in it, with the number of experiments and the outcomes at
    each of its two truths, kept ones among them."""
    stream = itertools.count(1000)
    for design in (*adverse_designs(), *adverse_jobs()):
        number = next(stream)
        if only not in design.name:
            continue
        if isinstance(design, AdverseJobs):
            for speedup in SPEEDUPS:
                name = f"{design.name}, {design.jobs} jobs, {speedup}, {count}, {number}"
                yield (
                    design,
                    count,
                    KEPT.counts(
                        name,
                        lambda: speed_verdicts(design, speedup, count, number),  # noqa: B023
                    ),
                )
            continue
        of_it = count if design.rows < MANY_ROWS else -(-count // 4)
        for harm in HARMS:
            name = f"{design.name}, {design.rows} rows, {design.seeds} seeds, {harm}, {of_it}"
            yield (
                design,
                of_it,
                KEPT.counts(
                    f"{name}, {number}",
                    lambda: verdicts(design, harm, of_it, number),  # noqa: B023
                ),
            )


def page(found: list[tuple[Adverse | AdverseJobs, Counts]], count: int) -> Iterator[str]:
    """The page, block by block, without its heading."""
    yield "## Quality"
    yield (
        "Every candidate is worse by exactly the margin in the population (a pass is false), or "
        "exactly as good (a pass is right). `At first` is what was measured when the gate was "
        "first held against such designs, `before` the gate of that day on these experiments. "
        "An experiment that holds none of the harm (no seed that diverges, no positive that is "
        "lost) looks like one of an equal candidate in every digit. So a rule that lets 5% of the "
        "harmed ones through can let no more of the equal ones through than the last column says "
        "(Neyman & Pearson, 1933). Where that is less than the gate lets through, it lets more "
        "harmed ones through than 5%, and its verdict says what so few seeds or examples leave "
        f"open. {count} experiments for each rate, and a quarter of that with {MANY_ROWS:,} rows."
    )
    yield table(
        (
            "Design",
            "Rows",
            "Seeds",
            "at first: false pass",
            "before: false pass",
            "now: false pass",
            "before: equal passes",
            "now: equal passes",
            "now: equal fails",
            "any rule at 5%: equal passes",
        ),
        [
            (
                design.name,
                f"{design.rows:,}",
                f"{design.seeds}",
                design.found,
                *counts.rates(0),
                *counts.rates(1),
                counts.rates(1, Outcome.FAIL)[1],
                _most_equals(design.unharmed),
            )
            for design, counts in found
            if isinstance(design, Adverse)
        ],
    )
    yield "## Speed by jobs alone"
    yield (
        f"No steps were taken in turns. {SPEEDUPS[0]:.2f} times are required. The last column is "
        "as above: an experiment none of whose candidate's jobs stalled cannot be told from one "
        f"of a candidate that is faster by a tenth. {count} experiments for each rate."
    )
    yield table(
        (
            "Jobs",
            "Jobs of an arm",
            "at first: false pass",
            *(f"{when}: passes at {speedup:.2f}" for speedup in SPEEDUPS for when in _WHEN),
            "any rule at 5%: passes of faster ones",
        ),
        [
            (
                design.name,
                f"{design.jobs}",
                design.found,
                *(each for which in range(len(SPEEDUPS)) for each in counts.rates(which)),
                _most_equals(design.unharmed),
            )
            for design, counts in found
            if isinstance(design, AdverseJobs)
        ],
    )


_WHEN = ("before", "now")


def _most_equals(unharmed: float) -> str:
    """The share of equal candidates that a rule can pass which passes 5% of the harmed ones."""
    return "" if unharmed <= ALLOWED else f"at most {ALLOWED / unharmed:.0%}"


def _heading(count: int, before: str, minutes: float) -> str:
    machine = (
        f"{platform.system()} {platform.machine()} with {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}"
    )
    asked = f" --before CHECKOUT` with commit {before} checked out there" if before else "`"
    return (
        "# Designs that fool a bound\n\n"
        f"Made by `python benchmarks/gate/gate_adverse.py --experiments {count}{asked}, in "
        f"{minutes:.0f} minutes of one core of {machine}.\n"
        "A false pass is a candidate declared no worse that is truly worse by the margin.\n"
        "Rates are in per cent with 95% Wilson intervals."
    )


def _earlier(checkout: Path, options: argparse.Namespace) -> tuple[list[Counter[str]], float]:
    """The same counts by another checkout's gate, in a process that imports that one; and the
    seconds that they took."""
    code = (
        f"import sys; sys.path[:0] = [{str(checkout)!r}, {str(HERE)!r}]; "
        "import gate_adverse; gate_adverse.only_counts()"
    )
    keep = [] if options.keep is None else ["--keep", str(options.keep)]
    asked = ["--experiments", str(options.experiments), *keep, "--before", str(checkout)]
    found = subprocess.run(
        [sys.executable, "-c", code, *asked, options.only],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.splitlines()
    *lines, seconds = found
    return [Counter(_pairs(line)) for line in lines], float(seconds)


def _pairs(line: str) -> dict[str, int]:
    return {word: int(number) for word, number in (part.split("=") for part in line.split())}


def only_counts() -> None:
    """Print the counts of whichever gate is imported, a line for each, and the seconds."""
    options = _options()
    KEPT.folder, KEPT.root = options.keep, options.before
    for _, _, found in counted(options.experiments, options.only):
        print(" ".join(f"{word}={number}" for word, number in found.items()), flush=True)
    print(KEPT.seconds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=400)
    parser.add_argument("--keep", type=Path, help="keep counts here, and take those that are")
    parser.add_argument("--before", type=Path, help="a checkout whose gate judges them as well")
    parser.add_argument("--write", type=Path, help="write the tables to this Markdown file too")
    parser.add_argument("only", nargs="?", default="", help="part of a design's name")
    return parser.parse_args()


def main() -> None:
    options = _options()
    KEPT.folder = options.keep
    earlier: list[Counter[str]] = []
    seconds, commit = 0.0, ""
    if options.before is not None:
        earlier, seconds = _earlier(options.before, options)
        asked = ["git", "-C", str(options.before), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    found: list[tuple[Adverse | AdverseJobs, Counts]] = []
    for at, (design, count, now) in enumerate(counted(options.experiments, options.only)):
        if not found or found[-1][0] is not design:
            found.append((design, Counts(count, [], [])))
        found[-1][1].now.append(now)
        found[-1][1].before.extend(earlier[at : at + 1])
    minutes = (seconds + KEPT.seconds) / 60.0
    text = "\n\n".join(page(found, options.experiments))
    made = f"{_heading(options.experiments, commit, minutes)}\n\n{text}\n"
    print(made)
    if options.write is not None:
        part = options.write.with_name(f".{options.write.name}.part")
        part.write_text(made, encoding="utf-8")
        part.replace(options.write)


if __name__ == "__main__":
    main()
