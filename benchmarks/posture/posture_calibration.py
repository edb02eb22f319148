"""How often is a posture wrong, and how late? It and two other rules live through simulated years.

    .venv/bin/python benchmarks/posture/posture_calibration.py [--quick] [--write FILE.md]

A year has 52 weekly executions. The posture is the product's own state machine with its defaults;
the gate's verdict on one execution is drawn as the gate makes it, from a normal difference with a
known error. Each execution has data of its own, which moves the difference and the metrics. Rates
are in per cent with 95% Wilson intervals. The same command prints the same rates again.
"""

from __future__ import annotations

import argparse
import datetime
import math
import platform
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compilegate.posture.evidence.promotion import FALSE_REVERTS
from compilegate.posture.machine.events import Outcome, Reset, Seen, Settled, Started
from compilegate.posture.machine.transitions import transition
from compilegate.posture.policy import Policy
from compilegate.posture.state import Difference, Posture, State

WEEKS = 52
MONTH = 4
BOUND = statistics.NormalDist().inv_cdf(0.95)
POLICY = Policy()
STABLE = 12
"""Weeks between the promotion and the regression whose delay is measured."""
FIRST = datetime.datetime(2026, 1, 5, 6, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Design:
    """How noisy a workload is, in margins."""

    error: float
    """The standard error of one execution's difference."""
    between: float
    """The spread of the true difference between executions, whose data change."""
    level: float = 0.5
    """The spread of both arms' metrics between executions, which a comparison removes."""

    @property
    def words(self) -> str:
        """For the table."""
        return f"{self.error:g} in a run, {self.between:g} between runs"


DESIGNS = (
    Design(0.3, 0.0),
    Design(0.5, 0.25),
    Design(0.5, 0.5),
    Design(1.0, 0.5),
    Design(1.0, 1.0),
)


@dataclass(frozen=True)
class Week:
    """What one execution would show, whichever arms it trains."""

    difference: float
    value: float
    error: float

    @property
    def outcome(self) -> Outcome:
        """The gate's: by one-sided bounds, with a margin of 1."""
        if self.difference - BOUND * self.error > -1:
            return "pass"
        return "fail" if self.difference + BOUND * self.error < -1 else "inconclusive"


def weeks(design: Design, generator: np.random.Generator, harms: list[float]) -> list[Week]:
    """An execution for each true harm, in margins."""
    found = []
    for harm in harms:
        true = -harm + design.between * generator.normal()
        difference = true + design.error * generator.normal()
        value = true + design.level * generator.normal() + design.error * generator.normal()
        found.append(Week(difference, value, design.error))
    return found


def day(week: int) -> str:
    """When an execution starts."""
    return (FIRST + datetime.timedelta(weeks=week)).isoformat()


def postures(year: list[Week]) -> Iterator[tuple[int, Posture]]:
    """The posture after each execution, by the product's state machine."""
    for number, posture, _ in _lived(year):
        yield number, posture


def _lived(year: list[Week]) -> Iterator[tuple[int, Posture, bool]]:
    """With it, whether an audit has failed and is being repeated."""
    state = transition(State(), Reset(when=day(0), who="a", reason="b")).state
    for number, week in enumerate(year):
        name = str(number)
        started = Started(
            execution=name, when=day(number), who="a", policy=POLICY, candidates=("x",)
        )
        state = transition(state, started).state
        alone = state.open[name].arms == "x"
        difference = Difference(
            metric="m", difference=week.difference, standard_error=week.error, margin=1.0
        )
        seen = Seen(
            arm="x",
            outcome="pass" if alone else week.outcome,
            reason="r",
            speedup=1.4,
            differences=() if alone else (difference,),
            values={"m": week.value},
        )
        trained = () if state.open[name].arms == "baseline" else (seen,)
        settled = Settled(execution=name, when=day(number), who="g", policy=POLICY, seen=trained)
        state = transition(state, settled).state
        yield number, state.posture, state.trial is not None


def one_failed_audit(year: list[Week]) -> Iterator[tuple[int, Posture]]:
    """The same, reverted by the first audit that the gate fails, without repeating it. That is also
    when the posture itself goes back to registering the baseline."""
    reverted = False
    for number, posture, trial in _lived(year):
        reverted = reverted or trial
        yield number, Posture.REVERTED if reverted else posture


def three_in_a_row(year: list[Week]) -> Iterator[tuple[int, Posture]]:
    """Promoted after three passes, reverted by an audit in eight that the gate fails."""
    posture, passes, alone = Posture.SHADOW, 0, 0
    for number, week in enumerate(year):
        if posture is Posture.SHADOW:
            passes = passes + 1 if week.outcome == "pass" else 0
            posture = Posture.ON if passes == 3 else posture
        elif posture is Posture.ON:
            alone += 1
            if alone % POLICY.audit_every == 0 and week.outcome == "fail":
                posture = Posture.REVERTED
        yield number, posture


def last_two_runs(year: list[Week]) -> Iterator[tuple[int, Posture]]:
    """Promoted when the last two differences are within the margin, whatever their error; reverted
    when a metric is worse than the run's before by more than the margin."""
    posture = Posture.SHADOW
    for number, week in enumerate(year):
        before = year[number - 1] if number else None
        if posture is Posture.SHADOW and before is not None:
            if week.difference > -1 and before.difference > -1:
                posture = Posture.ON
        elif posture is Posture.ON and before is not None and week.value < before.value - 1:
            posture = Posture.REVERTED
        yield number, posture


RULES = {
    "posture": postures,
    "one failed audit reverts": one_failed_audit,
    "three passes in a row": three_in_a_row,
    "compare the last two runs": last_two_runs,
}


def promoted_at(rule: str, year: list[Week]) -> float:
    """The week of the first promotion; infinite without one."""
    return next(
        (number for number, posture in RULES[rule](year) if posture is Posture.ON), math.inf
    )


def rate(count: int, total: int) -> str:
    """Per cent, with Wilson's interval."""
    z, share = 1.959964, count / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + (z / total / 2) ** 2)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return f"{100 * share:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def promotions(years: int, seed: int, harm: float, until: int) -> str:
    """How often each rule has promoted within so many weeks."""
    rows = []
    rules = [rule for rule in RULES if rule != "one failed audit reverts"]
    for index, design in enumerate(DESIGNS):
        generator = np.random.default_rng([seed, index])
        lived = [weeks(design, generator, [harm] * WEEKS) for _ in range(years)]
        rows.append(
            [
                design.words,
                *(
                    rate(sum(promoted_at(rule, year) <= until for year in lived), years)
                    for rule in rules
                ),
            ]
        )
    return table(["standard deviations, in margins", *rules], rows)


def reversions(years: int, seed: int) -> str:
    """By true regression: weeks until it is reverted, and how many are not."""
    rows = []
    for index, design in enumerate(DESIGNS):
        for harm in (0.0, 1.0, 2.0, 3.0):
            generator = np.random.default_rng([seed, index, int(harm)])
            cells: dict[str, list[float]] = {rule: [] for rule in RULES}
            for _ in range(years):
                # What all rules have in common: promoted, then stable, then worse.
                good = [Week(0.0, 0.1 * (-1) ** n, 0.05) for n in range(4)]
                before = weeks(design, generator, [0.0] * STABLE)
                year = [*good, *before, *weeks(design, generator, [harm] * WEEKS)]
                for rule in RULES:
                    cells[rule].append(_delay(rule, year, len(good) + STABLE))
            rows.append([design.words, f"{harm:g}", *(_delays(cells[rule]) for rule in RULES)])
    return table(["standard deviations, in margins", "regression, margins", *RULES], rows)


def _delay(rule: str, year: list[Week], since: int) -> float:
    """Weeks from the regression to the reversion; NaN where it came before, for nothing."""
    for number, posture in RULES[rule](year):
        if posture is Posture.REVERTED:
            return number - since + 1 if number >= since else math.nan
    return math.inf


def _delays(found: list[float]) -> str:
    true = [delay for delay in found if not math.isnan(delay)]
    early = len(found) - len(true)
    within = sum(delay <= WEEKS for delay in true)
    ordered = sorted(true)
    median = ordered[len(ordered) // 2] if ordered else math.inf
    middle = "none" if math.isinf(median) else f"{median:.0f}"
    return (
        f"{middle}; {100 * within / max(1, len(true)):.0f}% in a year; "
        f"{100 * early / len(found):.0f}% before it"
    )


def report(years: int) -> Iterator[str]:
    """The page."""
    yield "# How often a posture is wrong, and how late"
    yield (
        "`benchmarks/posture/posture_calibration.py` makes this page: "
        f"{years:,} simulated years of {WEEKS} weekly executions in each cell, Python "
        f"{platform.python_version()}, numpy {np.__version__}. Rates are in per cent with 95% "
        "Wilson intervals. All is measured in margins."
    )
    yield (
        "The posture is the state machine with its defaults: a failed audit is repeated, and "
        "reverts when two more fail in a row or when the repeated ones prove it. One failed audit "
        "reverts is the same without repeating, as it was before; its delay is also the time until "
        "the posture registers the baseline again. Three passes in a row promotes by the gate "
        "alone and reverts by an audit in eight that the gate fails. Comparing the last two runs "
        "promotes when two differences in a row lie within the margin, whatever their error, and "
        "reverts when a metric falls by more than the margin from one run to the next."
    )
    yield "## False promotions in a year, of a candidate that is worse by the margin"
    yield promotions(years, 1, 1.0, WEEKS)
    yield "## Promotions within the first month, of a candidate that is as good"
    yield ("The month has the benchmark and four weekly executions after it.")
    yield promotions(years, 2, 0.0, MONTH)
    yield "## Promotions within twelve executions, of a candidate that is as good"
    yield promotions(years, 3, 0.0, POLICY.patience - 1)
    yield "## Weeks until a regression is reverted"
    yield (
        f"The candidate is promoted, trains for {STABLE} weeks as good as the baseline and is then "
        "worse for good. A cell has the median of the weeks until it is reverted, the share "
        "reverted within a year, and the share that was reverted before, for nothing. With a "
        "regression of 0 every reversion is for nothing; the declared rate is "
        f"{100 * FALSE_REVERTS:g}%."
    )
    yield reversions(max(50, years // 2), 4)


def main() -> None:
    """Print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the years")
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    options = parser.parse_args()
    begun = time.monotonic()
    page = "\n\n".join(report(100 if options.quick else 1000)) + "\n"
    if options.write is None:
        print(page)
    else:
        options.write.write_text(page, encoding="utf-8")
    print(f"{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
