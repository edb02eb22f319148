"""A portfolio: the advice for all workloads, and where to start. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compilegate.advice.judging import ORDER, Advice, OptionAdvice, Verdict
from compilegate.advice.ranges import NOTHING, Range


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One workload of a portfolio."""

    advice: Advice

    @property
    def name(self) -> str:
        return self.advice.facts.workload

    @property
    def best(self) -> OptionAdvice | None:
        """The next step; None where all stays as it is."""
        return self.advice.best

    @property
    def verdict(self) -> Verdict:
        """That of the best option."""
        return Verdict.OFF if self.best is None else self.best.verdict

    @property
    def usd_per_year(self) -> Range | None:
        """What the best option would save."""
        if self.best is None:
            return NOTHING
        return None if self.best.outcome is None else self.best.outcome.saved_usd_per_year

    @property
    def hours_per_year(self) -> Range | None:
        """The same in hours of jobs."""
        if self.best is None:
            return NOTHING
        return None if self.best.outcome is None else self.best.outcome.saved_hours_per_year

    @property
    def worth(self) -> Range | None:
        """What the next step may bring in its first year, given that what a benchmark shows to be
        of no use stays off: then the benchmark is all that is lost."""
        first, best = self.first_year_usd, self.best
        if first is None or best is None or best.outcome is None:
            return first
        spent = best.outcome.benchmark.total_usd
        floor = first.low if spent is None else max(first.low, -spent.high)
        return Range(min(floor, first.high), first.high)

    @property
    def first_year_usd(self) -> Range | None:
        """The same in the first year, after the benchmark."""
        if self.best is None:
            return NOTHING
        return None if self.best.outcome is None else self.best.outcome.first_year_usd


@dataclass(frozen=True, kw_only=True)
class Portfolio:
    """All workloads, where to start first."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...] = ()
    """Workload files that cannot be read, each in a sentence."""

    @property
    def usd_per_year(self) -> Range:
        """The sum over workloads whose saving is known in dollars: one option of each, and nothing
        where it turns out to be of no use, since it then stays off."""
        total = NOTHING
        for entry in self.entries:
            saved = entry.usd_per_year or NOTHING
            total = total + Range(max(saved.low, 0.0), max(saved.high, 0.0))
        return total

    @property
    def untold(self) -> tuple[Entry, ...]:
        """Those with a next step whose saving in a year cannot be told."""
        return tuple(
            entry for entry in self.entries if entry.best is not None and entry.usd_per_year is None
        )

    @property
    def start(self) -> Entry | None:
        """Where to start: the most that the first year may bring; None where nothing is to do."""
        return next((entry for entry in self.entries if entry.best is not None), None)

    def count(self, verdict: Verdict) -> int:
        """How many workloads have that verdict."""
        return sum(entry.verdict is verdict for entry in self.entries)


def portfolio_of(advices: Sequence[Advice], problems: Sequence[str] = ()) -> Portfolio:
    """The portfolio in the order in which it is worth being worked through."""
    entries = [Entry(advice=each) for each in advices]
    return Portfolio(entries=tuple(sorted(entries, key=_order)), problems=tuple(problems))


def _order(entry: Entry) -> tuple[int, float, int, str]:
    """What is known to be worth most first, then what is not known, then what stays as it is."""
    if entry.best is None:
        return 2, 0.0, ORDER[entry.verdict], entry.name
    worth = entry.worth
    if worth is None:
        return 1, 0.0, ORDER[entry.verdict], entry.name
    return 0, -worth.middle, ORDER[entry.verdict], entry.name
