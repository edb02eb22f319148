"""How advice writes amounts: dollars, hours, shares, each as a range. Pure."""

from __future__ import annotations

from compilegate.advice.known.facts import Standing
from compilegate.advice.outcome import Benchmark, Repayment
from compilegate.advice.ranges import Range
from compilegate.advice.stances import Considered, Stance

UNKNOWN = "not known"


def usd(amount: Range | None) -> str:
    """Dollars: `$1,200 to $3,400`."""
    if amount is None:
        return UNKNOWN
    return _between(_dollars(amount.low), _dollars(amount.high))


def hours(amount: Range | None) -> str:
    """Hours of a job."""
    if amount is None:
        return UNKNOWN
    if max(abs(amount.low), abs(amount.high)) < 1.0:
        low, high = (f"{each * 60:.3g}" for each in (amount.low, amount.high))
        return f"{_between(low, high)} min"
    return f"{_between(_figures(amount.low), _figures(amount.high))} h"


def share(amount: Range | None) -> str:
    """Parts of a whole in per cent."""
    if amount is None:
        return UNKNOWN
    return f"{_between(f'{amount.low * 100:.0f}', f'{amount.high * 100:.0f}')}%"


def times(amount: Range | None) -> str:
    """A ratio."""
    if amount is None:
        return UNKNOWN
    return _between(f"{amount.low:.2f}", f"{amount.high:.2f}")


def seconds(amount: Range | None) -> str:
    """How long compiling takes."""
    if amount is None:
        return UNKNOWN
    return f"{_between(_figures(amount.low), _figures(amount.high))} s"


def within(title: str) -> str:
    """A title within a sentence; names keep their capital."""
    first, _, rest = title.partition(" ")
    return f"{first.lower()} {rest}" if first in ("A", "Managed", "No") else title


def runs_a_week(runs: float) -> str:
    """How often a workload runs."""
    return f"{_figures(runs)} run{'' if runs == 1 else 's'} a week"


def repaid(repayment: Repayment | None) -> str:
    """When a benchmark has paid for itself."""
    if repayment is None:
        return UNKNOWN
    best, worst = repayment.runs_at_best, repayment.runs_at_worst
    if best is None:
        return "never"
    if worst == best:
        return f"after {_count(best)}{_weeks(repayment.weeks_at_best)}"
    least = f"after {_count(best)}{_weeks(repayment.weeks_at_best)} at best"
    most = "never" if worst is None else f"after {worst:,}{_weeks(repayment.weeks_at_worst)}"
    return f"{least}, {most} at worst"


def benchmark(asked: Benchmark) -> str:
    """What asking costs."""
    if not asked.trainings:
        return "made already"
    machines = "machines not known"
    if asked.hours is not None:
        machines = f"{hours(asked.hours)} of a job, {usd(asked.usd)}"
    people = f"{_between(_figures(asked.engineer_hours.low), _figures(asked.engineer_hours.high))}"
    return (
        f"{asked.trainings} trainings of an epoch: {machines}; a person for {people} h, "
        f"{usd(asked.engineer_usd)}"
    )


MARKS = {
    Stance.FOR: "+",
    Stance.AGAINST: "-",
    Stance.STOPS: "x",
    Stance.OPEN: "?",
    Stance.NEUTRAL: " ",
}
"""In front of a consideration, so that a glance tells what it says."""
STANDINGS = {
    Standing.KNOWN: "known",
    Standing.ASSUMED: "assumed",
    Standing.UNKNOWN: "not known",
}


def consideration(each: Considered) -> str:
    """One consideration in a line."""
    return f"{each.title}: {each.sentence} ({STANDINGS[each.standing]})"


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _dollars(amount: float) -> str:
    size = abs(amount)
    text = f"{size:,.0f}" if size >= 100 or size == 0 else f"{size:,.2f}"
    return f"-${text}" if amount < 0 and text.strip("0.,") else f"${text}"


def _figures(amount: float) -> str:
    size = abs(amount)
    return f"{amount:,.0f}" if size >= 100 else f"{amount:.3g}"


def _count(runs: int) -> str:
    return f"{runs:,} run{'' if runs == 1 else 's'}"


def _weeks(weeks: float | None) -> str:
    return "" if weeks is None else f" ({weeks:,.1f} weeks)"
