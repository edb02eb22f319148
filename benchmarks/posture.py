"""Count how many good candidates a posture loses, and how many bad models it registers.

    python -m benchmarks.posture [--write]

Each row has 200 histories of 104 weekly executions. The posture is the product's state machine with
its defaults; its peer is the rule "on after two passes, reverted at one fail". The gate's outcome
is drawn from a difference with a known error; all is in margins. Draws repeat exactly.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from statistics import NormalDist, fmean
from typing import NamedTuple

import numpy as np

from benchmarks import results
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


class Cell(NamedTuple):
    """How noisy a workload is, in margins."""

    error: float  # the standard error of one execution's difference
    between: float  # the spread of the true difference between executions, whose data change
    bad: float  # the share of bad weeks


NOISES = ((0.2, 0.0), (0.3, 0.2), (0.3, 0.5), (0.5, 0.0), (0.5, 0.5))
CELLS = [Cell(*noise, bad) for noise, bad in product(NOISES, (0.0, 0.05, 0.1))]


class Week(NamedTuple):
    """What one execution would show, whichever arms it trains."""

    difference: float
    value: float
    error: float

    @property
    def outcome(self) -> Outcome:
        """The gate's outcome: by one-sided bounds, with a margin of 1."""
        if self.difference - BOUND * self.error > -1:
            return "pass"
        return "fail" if self.difference + BOUND * self.error < -1 else "inconclusive"


class Execution(NamedTuple):
    """The posture after one execution, and what that trained and registered."""

    posture: Posture
    jobs: int
    candidate: bool  # whether the candidate's model was registered


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


def by_posture(weeks: Sequence[Week]) -> Iterator[Execution]:
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
        yield Execution(state.posture, 2 * SEEDS if together else 1, alone or passed)


def by_two_passes(weeks: Sequence[Week]) -> Iterator[Execution]:
    """On after two passes in a row; reverted for good by one fail, before or in an audit. Audits
    are as frequent as the posture's."""
    posture, passes, alone = Posture.SHADOW, 0, 0
    for week in weeks:
        together = posture is Posture.SHADOW
        if posture is Posture.ON:
            alone += 1
            together = alone % POLICY.audit_every == 0
        passed = together and week.outcome == "pass"
        candidate = passed or (posture is Posture.ON and not together)
        if together and week.outcome == "fail":
            posture = Posture.REVERTED
        elif posture is Posture.SHADOW:
            passes = passes + 1 if passed else 0
            posture = Posture.ON if passes == 2 else posture
        yield Execution(posture, 2 * SEEDS if together else 1, candidate)


TRUTHS: dict[str, Callable[[int], float]] = {
    "good": lambda _: 0.0,
    "worse": lambda _: 1.0,
    "breaks": lambda week: 1.0 if week >= BREAK else 0.0,
}


def row(cell: Cell, number: int) -> list[str]:
    """The table's cells: of each figure, the posture's and the simple rule's."""
    figures = []
    for rule in (by_posture, by_two_passes):
        found = {}
        for truth, harm in TRUTHS.items():
            generator = np.random.default_rng([number, len(truth)])
            found[truth] = [list(rule(history(cell, generator, harm))) for _ in range(HISTORIES)]
        unreverted = [one for one in found["good"] if one[-1].posture is not Posture.REVERTED]
        wrong = [any(each.posture is Posture.ON for each in one) for one in found["worse"]]
        was_on = [one for one in found["breaks"] if one[BREAK - 1].posture is Posture.ON]
        after = [sum(each.candidate for each in one[BREAK:]) for one in was_on]
        jobs = [sum(each.jobs for each in one) for one in unreverted]
        figures.append(
            (
                f"{100 * (1 - len(unreverted) / HISTORIES):.1f}%",
                f"{100 * fmean(wrong):.1f}%",
                f"{fmean(after):.1f}" if after else "-",
                f"{fmean(jobs):.0f}" if jobs else "-",
            )
        )
    noise = [f"{cell.error:g}", f"{cell.between:g}", f"{100 * cell.bad:g}%"]
    return [*noise, *map(" / ".join, zip(*figures, strict=True))]


def main() -> None:
    """Simulate and print."""
    options = results.parser(__doc__).parse_args()
    columns = ["error", "between runs", "bad weeks", "good candidates lost", "wrong promotions"]
    columns += ["bad models after a break", "jobs"]
    rows = [row(cell, number) for number, cell in enumerate(CELLS)]
    results.publish("posture", columns, rows, to_file=options.write)


if __name__ == "__main__":
    main()
