"""One row for each execution of a workload, oldest first, and their cells in a table. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compilegate.gate.verdict import Amount, ArmCost, Interval, Verdict
from compilegate.posture.contract import ALL, BASELINE
from compilegate.posture.records import Record
from compilegate.posture.state import Chosen, Posture, Settled, Started

COLUMNS = (
    *("STARTED", "EXECUTION", "POSTURE", "TRAINED", "REGISTERED", "OUTCOME"),
    *("METRICS (DELTA)", "SPEED-UP", "HOURS", "USD", "CHANGES"),
)
PORTFOLIO = ("WORKLOAD", "EXECUTIONS", "LAST", "POSTURE", "REGISTERED", "SPEED-UP", "HOURS", "USD")
_MOST_RULES = 3
"""Changed rules of the gate that a row names; the rest is counted."""


@dataclass(frozen=True, kw_only=True)
class Past:
    """One execution, wherever it ran."""

    execution: str
    started: float
    """Seconds since the epoch."""
    status: str
    verdict: Verdict | None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One guarded metric in one execution, in its own units."""

    metric: str
    value: float
    """The row's arm's."""
    baseline: float | None = None
    """The baseline's value; None where no baseline trained beside it."""
    delta: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One execution."""

    execution: str
    started: str
    status: str
    posture: str = ""
    """The posture that it was planned under; empty for a workload without one."""
    trained: str = ALL
    """`all`, or the arm that trained alone."""
    registered: str = ""
    arm: str = ""
    """The candidate that the figures are about; empty where none trained."""
    outcome: str = ""
    metrics: tuple[Measured, ...] = ()
    speedup: Interval | None = None
    cost: Amount | None = None
    """All jobs whose evidence is valid, together; None where there is none."""
    saved: Amount | None = None
    """Seconds by which a candidate's job alone was shorter than the newest baseline's before; in an
    audit, below zero, what it trained beyond the candidate's one job. None where it is not
    measured, and in other executions."""
    versions: Mapping[str, str] | None = None
    """Digests of what trained, from the posture's record."""
    changes: tuple[str, ...] = ()
    """Differences from the row before."""

    @property
    def alone(self) -> bool:
        """Whether a candidate trained without the baseline."""
        return self.trained not in {ALL, BASELINE}

    @property
    def audit(self) -> bool:
        """Whether all arms trained although a candidate trains alone otherwise."""
        return self.posture == Posture.ON and self.trained == ALL


def rows_of(executions: Iterable[Past], record: Record | None) -> list[Row]:
    """The rows, with what changed between them."""
    record = record or Record(workload="")
    rows: list[Row] = []
    rules: dict[str, str] = {}
    baseline: ArmCost | None = None
    for past in sorted(executions, key=lambda one: one.started):
        row = _row(past, record)
        changes = list(_changes(rows[-1], row, record)) if rows else []
        if past.verdict is not None and past.verdict.rules:
            now = dict(_flat(past.verdict.rules))
            changes += _changed_rules(rules, now)
            rules = now
        arms = _arms(past.verdict)
        saved = _saved(row, arms, baseline)
        rows.append(replace(row, changes=tuple(changes), saved=saved))
        baseline = arms.get(BASELINE, baseline)
    return rows


def _row(past: Past, record: Record) -> Row:
    moment = datetime.datetime.fromtimestamp(past.started, datetime.UTC)
    row = Row(
        execution=past.execution, started=moment.isoformat(timespec="seconds"), status=past.status
    )
    if past.verdict is not None:
        row = _with_verdict(row, past.verdict)
    if started := record.latest(Started, past.execution):
        event, decision = started
        posture = str(decision.after)
        row = replace(row, posture=posture, versions=event.fingerprint, started=event.when)
    if settled := record.latest(Settled, past.execution):
        row = _with_settled(row, settled[0])
    return row


def _arms(verdict: Verdict | None) -> dict[str, ArmCost]:
    cost = None if verdict is None else verdict.cost
    return {} if cost is None else {one.arm: one for one in cost.arms}


def _with_verdict(row: Row, verdict: Verdict) -> Row:
    jobs = [(one.jobs, one.job) for one in _arms(verdict).values()]
    row = replace(
        row,
        registered=verdict.decision.arm,
        trained=ALL if verdict.candidates else verdict.baseline.arm,
        cost=Amount.total(*jobs) if jobs else None,
    )
    if not verdict.candidates:
        return row
    by_name = {candidate.arm: candidate for candidate in verdict.candidates}
    about = by_name.get(verdict.decision.arm, verdict.candidates[0])
    return replace(
        row,
        arm=about.arm,
        outcome=str(about.outcome),
        metrics=tuple(
            Measured(metric=one.metric, value=one.candidate, baseline=one.baseline, delta=one.delta)
            for one in about.metrics
            if one.margin is not None and one.part is None
        ),
        speedup=None if about.speed is None else about.speed.speedup,
    )


def _with_settled(row: Row, event: Settled) -> Row:
    """Add what the verdict lacks: the metrics of an arm alone, and an execution that failed."""
    row = replace(row, registered=event.registered if event.registered != "none" else "")
    named = [one for one in event.seen if one.arm == (row.arm or row.trained)]
    seen = next(iter([*named, *event.seen]), None)
    if seen is None or row.metrics:
        return row
    metrics = tuple(
        Measured(metric=name, value=-value if name in seen.turned else value)
        for name, value in seen.values.items()
    )
    return replace(row, arm=seen.arm, outcome=seen.outcome, metrics=metrics)


def _total(amounts: Sequence[Amount]) -> Amount | None:
    return Amount.total(*((1, one) for one in amounts)) if amounts else None


def _saved(row: Row, arms: Mapping[str, ArmCost], baseline: ArmCost | None) -> Amount | None:
    """Measured, not taken from a price list: nothing is claimed where a job's time is unknown."""
    candidate = arms.get(row.arm if row.audit else row.trained)
    if candidate is None:
        return None
    if row.audit and row.cost is not None:
        return Amount.total((1, candidate.job), (-1, row.cost))
    if row.alone and baseline is not None:
        return Amount.total((1, baseline.job), (-1, candidate.job))
    return None


def _changes(before: Row, row: Row, record: Record) -> Iterator[str]:
    if before.posture != row.posture:
        yield f"posture {before.posture or 'none'} -> {row.posture or 'none'}"
    if before.registered and row.registered and before.registered != row.registered:
        yield f"registers {row.registered}"
    old, new = before.versions or {}, row.versions or {}
    changed = [name for name in new if old and old.get(name) != new[name]]
    if changed:
        yield f"{' and '.join(changed)} changed"
    for decision in record.decisions:
        between = before.started < decision.event.when <= row.started
        if between and isinstance(decision.event, Chosen):
            yield decision.reason


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of a table by their dotted keys, as texts."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from _flat(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield from _flat({str(number): member for number, member in enumerate(value)}, path)
    else:
        yield path, "none" if value is None else str(value)


def _changed_rules(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Rules of the gate that differ from those of the verdict before."""
    changes = [
        f"{name} {old.get(name, 'none')} -> {new.get(name, 'none')}"
        for name in {**old, **new}
        if old.get(name, "none") != new.get(name, "none")
    ]
    if not old or not changes:
        return []
    more = f" and {len(changes) - _MOST_RULES} more" if len(changes) > _MOST_RULES else ""
    return [f"gate rules changed: {', '.join(changes[:_MOST_RULES])}{more}"]


def saved_so_far(rows: Sequence[Row]) -> str:
    """The measured hours and dollars that the candidate saved; empty where it never trained
    alone."""
    alone, audits = [row for row in rows if row.alone], [row for row in rows if row.audit]
    measured = [row.saved for row in [*alone, *audits] if row.saved is not None]
    total = _total(measured)
    if not alone:
        return ""
    if total is None or not any(row.saved for row in alone):
        return "Saved so far: not measured"
    usd = "dollars unknown" if total.usd is None else f"{total.usd:.2f} USD"
    unknown = len(alone) + len(audits) - len(measured)
    return (
        f"Saved so far: {total.seconds / 3600:.2f} hours, {usd} (measured over executions of the "
        f"candidate alone: {len(alone)}, less audits: {len(audits)}; not measured: {unknown})"
    )


def summary(rows: Sequence[Row]) -> Row:
    """The newest row, with the arm registered last, the newest speed-up and the cost of all."""
    return replace(
        rows[-1],
        registered=next((row.registered for row in reversed(rows) if row.registered), ""),
        speedup=next((row.speedup for row in reversed(rows) if row.speedup), None),
        cost=_total([row.cost for row in rows if row.cost is not None]),
    )


def row_cells(row: Row) -> tuple[str, ...]:
    """A row for a table; `-` where nothing is known."""
    return (
        row.started[:16].replace("T", " "),
        row.execution,
        row.posture or "-",
        row.trained,
        row.registered or "none",
        f"{row.arm} {row.outcome}".strip() or "-",
        ", ".join(_metric(one) for one in row.metrics) or "-",
        _speedup(row.speedup),
        *_cost(row.cost),
        "; ".join(row.changes) or "-",
    )


def summary_cells(workload: str, rows: Sequence[Row]) -> tuple[str, ...]:
    """A workload for the portfolio's table."""
    newest = summary(rows)
    return (
        workload,
        str(len(rows)),
        newest.started[:10],
        newest.posture or "-",
        newest.registered or "none",
        _speedup(newest.speedup),
        *_cost(newest.cost),
    )


def _metric(one: Measured) -> str:
    found = f"{one.metric} {one.value:.4g}"
    if one.delta is None:
        return found
    delta = one.delta
    return f"{found} ({delta.estimate:+.2g}, {delta.lower:+.2g} to {delta.upper:+.2g})"


def _speedup(found: Interval | None) -> str:
    if found is None:
        return "-"
    return f"{found.estimate:.2f} ({found.lower:.2f} to {found.upper:.2f})"


def _cost(cost: Amount | None) -> tuple[str, str]:
    if cost is None:
        return "-", "unknown"
    return f"{cost.seconds / 3600:.2f}", "unknown" if cost.usd is None else f"{cost.usd:.2f}"
