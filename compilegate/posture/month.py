"""A month of a workload, from its record: what ran, what it saved and cost, what moved. Pure.

What is saved is measured and not what a list says: the baseline's last job beside the candidate,
less the candidate's job in this execution. Where either is not known, nothing is claimed.
"""

from __future__ import annotations

import datetime
import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compilegate.posture.expected import Expected, beside_decisions
from compilegate.posture.machine.events import Settled
from compilegate.posture.machine.planning import BASELINE, days_between
from compilegate.posture.names import ALL
from compilegate.posture.records.record import Decision, Record, replayed
from compilegate.posture.state import Plan, Posture, Spent


@dataclass(frozen=True, kw_only=True)
class Money:
    """Machine time, and what it cost."""

    seconds: float = 0.0
    usd: float | None = 0.0
    """None where the price of a part is not known."""

    def plus(self, seconds: float, usd: float | None) -> Money:
        """Both together; dollars only where both are known."""
        both = None if self.usd is None or usd is None else self.usd + usd
        return Money(seconds=self.seconds + seconds, usd=both)


@dataclass(frozen=True, kw_only=True)
class Month:
    """What a month came to."""

    workload: str
    month: str
    """As in 2026-10, by UTC."""
    posture: str
    """At its end."""
    executions: int
    alone: int
    """Those that trained the candidate alone."""
    audits: int
    failed: int
    """Those that left no model: they ended before a gate could choose, or none was valid."""
    spent: Money
    saved: Money
    """By the executions that trained the candidate alone."""
    unmeasured: int
    """How many of those are not in it, since a job's time is not known."""
    audit_cost: Money
    """What audits trained beyond the candidate's one job."""
    registered: str
    """The arm that was registered last; empty before there was one."""
    registered_since: str
    registered_days: float
    speedup: float | None
    """The newest proven one, the lower end of its interval."""
    moves: tuple[str, ...]
    advice: tuple[tuple[str, str], ...] = ()
    """What advice expected of arms, beside what was measured: a row's name, and a sentence."""


def month_before(when: str) -> str:
    """The whole month before a moment."""
    first = datetime.datetime.fromisoformat(when).astimezone(datetime.UTC).replace(day=1)
    return (first - datetime.timedelta(days=1)).strftime("%Y-%m")


def month_of(record: Record, month: str, *, now: str, expected: Sequence[Expected] = ()) -> Month:
    """What the month came to, as its decisions say; one that is not over, until now. `expected` is
    what advice said of the arms."""
    last = max((one.number for one in record.decisions if _month(one) <= month), default=0)
    until = record.decisions[:last]
    within = [one for one in until if _month(one) == month]
    ran = list(_executions(record.workload, until))
    here = [one for one in ran if _month(one.decision) == month]
    spent = saved = audit_cost = Money()
    unmeasured = 0
    for one in here:
        for part in one.event.spent:
            spent = spent.plus(part.seconds, part.usd)
        if one.alone:
            gain = _gain(one, one.baseline)
            if gain is None:
                unmeasured += 1
            else:
                saved = saved.plus(gain.seconds, gain.usd)
        if one.plan.audit:
            beyond = _beyond(one)
            audit_cost = audit_cost.plus(beyond.seconds, beyond.usd)
    registered, since = _registered([one.event for one in ran])
    end = min(_end_of(month), now, key=datetime.datetime.fromisoformat)
    return Month(
        workload=record.workload,
        month=month,
        posture=str(until[-1].after if until else Posture.SHADOW),
        executions=len(here),
        alone=sum(one.alone for one in here),
        audits=sum(one.plan.audit for one in here),
        failed=sum(one.event.registered == "none" for one in here),
        spent=spent,
        saved=saved,
        unmeasured=unmeasured,
        audit_cost=audit_cost,
        registered=registered,
        registered_since=since,
        registered_days=max(0.0, days_between(since, end)) if since else 0.0,
        speedup=_speedup([one.event for one in ran]),
        moves=tuple(
            f"{one.event.when[:10]}: {one.before} -> {one.after}, {one.reason}"
            for one in within
            if one.before is not one.after
        ),
        advice=tuple(beside_decisions(expected, within)),
    )


@dataclass(frozen=True)
class _Ran:
    """One execution: how it was planned, how it ended, the newest baseline's job before it."""

    decision: Decision
    event: Settled
    plan: Plan
    arm: str
    baseline: Spent | None

    @property
    def alone(self) -> bool:
        return self.plan.arms not in {ALL, BASELINE}


def _executions(workload: str, decisions: Sequence[Decision]) -> Iterator[_Ran]:
    record = replayed(workload, ())
    baseline: Spent | None = None
    for decision in decisions:
        event, state = decision.event, record.state
        record = record.after(event)
        if not isinstance(event, Settled) or event.execution not in state.open:
            continue
        yield _Ran(decision, event, state.open[event.execution], state.arm, baseline)
        baseline = next((one for one in event.spent if one.arm == BASELINE), baseline)


def _gain(one: _Ran, baseline: Spent | None) -> Money | None:
    """What the candidate's job took less than the baseline's."""
    candidate = next((part for part in one.event.spent if part.arm == one.plan.arms), None)
    if candidate is None or baseline is None or not candidate.jobs or not baseline.jobs:
        return None
    usd = None
    if candidate.usd is not None and baseline.usd is not None:
        usd = baseline.usd / baseline.jobs - candidate.usd / candidate.jobs
    return Money(
        seconds=baseline.seconds / baseline.jobs - candidate.seconds / candidate.jobs, usd=usd
    )


def _beyond(one: _Ran) -> Money:
    """All jobs of an audit but the one that would have trained anyhow."""
    total = Money()
    for part in one.event.spent:
        other = 1.0
        if part.arm == one.arm and part.jobs:
            other = 1 - 1 / part.jobs
        total = total.plus(other * part.seconds, None if part.usd is None else other * part.usd)
    return total


def _registered(ended: Sequence[Settled]) -> tuple[str, str]:
    """The arm that was registered last, and since when without another between."""
    arm, since = "", ""
    for event in ended:
        if event.registered not in {"none", arm}:
            arm, since = event.registered, event.when
    return arm, since


def _speedup(ended: Sequence[Settled]) -> float | None:
    found = [seen.speedup for event in ended for seen in event.seen if seen.speedup is not None]
    return found[-1] if found else None


def _month(decision: Decision) -> str:
    moment = datetime.datetime.fromisoformat(decision.event.when)
    return moment.astimezone(datetime.UTC).strftime("%Y-%m")


def _end_of(month: str) -> str:
    middle = datetime.datetime.strptime(f"{month}-28", "%Y-%m-%d").replace(tzinfo=datetime.UTC)
    return (middle + datetime.timedelta(days=4)).replace(day=1).isoformat()


def month_rows(month: Month) -> list[tuple[str, str]]:
    """What is told, by name: the same in the mail, in the terminal and on the page."""
    measured = month.alone - month.unmeasured
    saved = "nothing measured" if not measured else _money(month.saved)
    if measured:
        saved += f", by {_several(measured, 'execution')} that trained the candidate alone"
    if month.unmeasured:
        saved += f"; {month.unmeasured} more could not be measured"
    registered = "none yet"
    if month.registered:
        registered = (
            f"{month.registered}, since {month.registered_since[:10]} "
            f"({_several(round(month.registered_days), 'day')})"
        )
    audits = _several(month.audits, "audit")
    ran = f"{month.executions}, {month.alone} of the candidate alone, {audits}"
    if month.failed:
        ran += f", {month.failed} without a model"
    return [
        ("Posture", month.posture),
        ("Executions", ran),
        ("Spent on training", _money(month.spent)),
        ("Saved", saved),
        ("Cost of audits", _money(month.audit_cost) if month.audits else "none"),
        ("Registered", registered),
        ("Proven speed-up", "not measured" if month.speedup is None else f"{month.speedup:.2f}"),
        *month.advice,
    ]


def month_subject(month: Month) -> str:
    """One line."""
    return f"{month.workload}: {month.month}, posture {month.posture}"


def month_text(month: Month) -> str:
    """For the mail and the terminal."""
    lines = [f"{name}: {value}" for name, value in month_rows(month)]
    lines += ["", *(month.moves or ("The posture did not change.",))]
    return "\n".join(lines)


def month_page(month: Month) -> str:
    """One file of HTML, without anything from elsewhere."""
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>\n"
        for name, value in month_rows(month)
    )
    moves = "".join(f"<li>{html.escape(move)}</li>\n" for move in month.moves)
    return _PAGE.format(
        title=html.escape(f"{month.workload}, {month.month}"),
        rows=rows,
        moves=f"<ul>{moves}</ul>" if moves else "<p>The posture did not change.</p>",
    )


def _several(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _money(money: Money) -> str:
    usd = "dollars unknown" if money.usd is None else f"{money.usd:.2f} USD"
    return f"{money.seconds / 3600:.2f} hours, {usd}"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem; color: #1c2330; background: #fff }}
table {{ border-collapse: collapse }}
th, td {{ text-align: left; padding: .3rem .7rem; border-bottom: 1px solid #d8dde6 }}
@media (prefers-color-scheme: dark) {{ body {{ color: #e4e8ef; background: #14181f }}
 th, td {{ border-color: #333b48 }} }}
</style></head><body><h1>{title}</h1><table>{rows}</table><h2>What changed</h2>{moves}
</body></html>
"""
