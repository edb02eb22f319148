"""How many good candidates a posture loses, and how many bad models it registers: the table of
docs/posture.md.

    .venv/bin/python benchmarks/posture/posture_simulation.py

Each cell has 200 histories of 104 weekly executions, and the rule "on after two passes, revert at
one fail" beside the posture. The posture is the product's own state machine with its defaults. The
gate's verdict on one execution is drawn as the gate makes it, from a difference with a known error;
all is in margins. The same command prints the same table again.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

import numpy as np

from compilegate.posture.contract import Policy
from compilegate.posture.state import (
    Chosen,
    Difference,
    Outcome,
    Posture,
    Seen,
    Settled,
    Started,
    State,
)
from compilegate.posture.transitions import transition

WEEKS, HISTORIES, SEEDS = 104, 200, 3
BREAK = 52
"""The week from which a candidate that breaks is worse."""
BAD_WEEK = 3.0
"""By so many margins the data of a bad week make any candidate look worse."""
LEVEL = 0.5
"""The spread of both arms' metrics between executions, which a comparison removes."""
BOUND = NormalDist().inv_cdf(0.95)
POLICY = Policy()
FIRST = datetime.datetime(2026, 1, 5, 6, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Cell:
    """How noisy a workload is, in margins."""

    error: float
    """The standard error of one execution's difference."""
    between: float
    """The spread of the true difference between executions, whose data change."""
    bad: float
    """The share of bad weeks."""

    def __str__(self) -> str:
        return f"{self.error:g} | {self.between:g} | {100 * self.bad:g}%"


CELLS = [
    Cell(error, between, bad)
    for error, between in ((0.2, 0.0), (0.3, 0.2), (0.3, 0.5), (0.5, 0.0), (0.5, 0.5))
    for bad in (0.0, 0.05, 0.1)
]


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


@dataclass(frozen=True)
class Lived:
    """The posture after one execution, and what that trained and registered."""

    posture: Posture
    jobs: int
    candidate: bool
    """Whether the candidate's model was registered."""


def history(cell: Cell, generator: np.random.Generator, harm: Callable[[int], float]) -> list[Week]:
    """An execution for each week; `harm` is how much worse the candidate is in truth."""
    found = []
    for number in range(WEEKS):
        true = -harm(number) + cell.between * generator.normal()
        true -= BAD_WEEK * (generator.random() < cell.bad)
        difference = true + cell.error * generator.normal()
        value = true + LEVEL * generator.normal() + cell.error * generator.normal()
        found.append(Week(difference, value, cell.error))
    return found


def by_posture(weeks: Sequence[Week]) -> Iterator[Lived]:
    """The product's state machine."""
    first = Chosen(posture=Posture.BENCHMARK, when=FIRST.isoformat(), who="a", reason="b")
    state = transition(State(), first).state
    for number, week in enumerate(weeks):
        name, when = str(number), (FIRST + datetime.timedelta(weeks=number)).isoformat()
        started = Started(execution=name, when=when, who="a", policy=POLICY, candidates=("x",))
        state = transition(state, started).state
        plan = state.open[name]
        alone, together = plan.arms == "x", plan.arms == "all"
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
        trained = (seen,) if alone or together else ()
        state = transition(state, Settled(execution=name, when=when, who="g", seen=trained)).state
        passed = together and plan.registers == "gate" and week.outcome == "pass"
        yield Lived(state.posture, 2 * SEEDS if together else 1, alone or passed)


def by_two_passes(weeks: Sequence[Week]) -> Iterator[Lived]:
    """On after two passes in a row; reverted for good by one fail, before or in an audit in so many
    as the posture makes."""
    posture, passes, alone = Posture.SHADOW, 0, 0
    for week in weeks:
        together = posture is Posture.SHADOW
        if posture is Posture.ON:
            alone += 1
            together = alone % POLICY.audit_every == 0
        candidate = (posture is Posture.ON and not together) or (
            together and week.outcome == "pass"
        )
        if together and week.outcome == "fail":
            posture = Posture.REVERTED
        elif posture is Posture.SHADOW:
            passes = passes + 1 if week.outcome == "pass" else 0
            posture = Posture.ON if passes == 2 else posture
        yield Lived(posture, 2 * SEEDS if together else 1, candidate)


def measured(cell: Cell, number: int) -> str:
    """One line of the table: of each figure, the posture's and the simple rule's."""
    truths: dict[str, Callable[[int], float]] = {
        "good": lambda _: 0.0,
        "worse": lambda _: 1.0,
        "breaks": lambda week: 1.0 if week >= BREAK else 0.0,
    }
    figures: dict[str, list[str]] = {"lost": [], "wrong": [], "after": [], "jobs": []}
    for rule in (by_posture, by_two_passes):
        lived = {}
        for truth, harm in truths.items():
            generator = np.random.default_rng([number, len(truth)])
            lived[truth] = [list(rule(history(cell, generator, harm))) for _ in range(HISTORIES)]
        lost = [one[-1].posture is Posture.REVERTED for one in lived["good"]]
        wrong = [any(each.posture is Posture.ON for each in one) for one in lived["worse"]]
        was_on = [one for one in lived["breaks"] if one[BREAK - 1].posture is Posture.ON]
        after = [sum(each.candidate for each in one[BREAK:]) for one in was_on]
        figures["lost"].append(f"{100 * fmean(lost):.1f}%")
        figures["wrong"].append(f"{100 * fmean(wrong):.1f}%")
        figures["after"].append(f"{fmean(after):.1f}" if after else "-")
        jobs = [
            sum(each.jobs for each in one)
            for one in lived["good"]
            if one[-1].posture is not Posture.REVERTED
        ]
        figures["jobs"].append(f"{fmean(jobs):.0f}" if jobs else "-")
    return f"| {cell} | " + " | ".join(" / ".join(each) for each in figures.values()) + " |"


def main() -> None:
    """Print the table."""
    print(
        "| error | between runs | bad weeks | good candidates lost | wrong promotions "
        "| bad models after a break | jobs |"
    )
    print("|---|---|---|---|---|---|---|")
    for number, cell in enumerate(CELLS):
        print(measured(cell, number), flush=True)


if __name__ == "__main__":
    main()
