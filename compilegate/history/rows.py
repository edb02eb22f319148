"""One row for each execution of a workload, oldest first, and their cells in a table. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compilegate.gate.verdict import ArmCost, CandidateVerdict, Interval, Verdict
from compilegate.posture.events import Lost, Reset, Seen, SetByPerson, Settled, Started
from compilegate.posture.names import ALL, BASELINE
from compilegate.posture.records import Decision, Record
from compilegate.posture.state import Posture

COLUMNS = (
    *("STARTED", "EXECUTION", "POSTURE", "TRAINED", "REGISTERED", "OUTCOME"),
    *("METRICS (DELTA)", "SPEED-UP", "HOURS", "USD", "CHANGES"),
)
PORTFOLIO = (
    *("WORKLOAD", "EXECUTIONS", "LAST", "POSTURE", "REGISTERED", "SINCE", "SPEED-UP"),
    *("HOURS", "USD"),
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One guarded metric in one execution, in its own units."""

    metric: str
    value: float
    """The arm's that the row is about."""
    baseline: float | None = None
    """None where no baseline trained beside it."""
    delta: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One execution."""

    execution: str
    started: str
    status: str
    posture: str = ""
    """What it was planned under; empty for a workload without a posture."""
    trained: str = ALL
    """`all`, or the arm that trained alone."""
    registered: str = ""
    arm: str = ""
    """The candidate that the figures are about; empty where none trained."""
    outcome: str = ""
    metrics: tuple[Measured, ...] = ()
    speedup: Interval | None = None
    seconds: float | None = None
    """Machine time over all jobs whose evidence is valid; None where nothing is known."""
    usd: float | None = None
    """None where the price is not known."""
    saved_seconds: float | None = None
    """By how much a candidate's job alone was shorter than the newest baseline's before; in an
    audit, below zero, what it trained beyond the candidate's one job. None where it is not
    measured, and in other executions."""
    saved_usd: float | None = None
    versions: Mapping[str, str] | None = None
    """Digests of what trained, from the posture's record."""
    changes: tuple[str, ...] = ()
    """What is different from the row before: the change points."""


@dataclass(frozen=True, kw_only=True)
class Past:
    """What is known of one execution, wherever it ran."""

    execution: str
    started: float
    """Seconds since the epoch."""
    status: str
    verdict: Verdict | None


def rows_of(executions: Iterable[Past], record: Record | None) -> list[Row]:
    """The rows, with their change points."""
    decisions = () if record is None else record.decisions
    rows: list[Row] = []
    baseline: ArmCost | None = None
    for past in sorted(executions, key=lambda one: one.started):
        row, arms = _row(past, decisions), _arms(past.verdict)
        before = rows[-1] if rows else None
        row = replace(row, changes=tuple(_changes(before, row, decisions)))
        rows.append(_with_savings(row, arms, baseline))
        baseline = arms.get(BASELINE, baseline)
    return rows


def _row(past: Past, decisions: Sequence[Decision]) -> Row:
    moment = datetime.datetime.fromtimestamp(past.started, datetime.UTC)
    row = Row(
        execution=past.execution, started=moment.isoformat(timespec="seconds"), status=past.status
    )
    if past.verdict is not None:
        row = _with_verdict(row, past.verdict)
    # What it says again, when it is resumed, was decided the first time.
    for decision in reversed(decisions):
        event = decision.event
        if isinstance(event, Started) and event.execution == past.execution:
            after, versions = str(decision.after), event.fingerprint
            row = replace(row, posture=after, versions=versions, started=event.when)
    settled = [
        one.event
        for one in decisions
        if isinstance(one.event, Settled) and one.event.execution == past.execution
    ]
    return _with_settled(row, settled[0]) if settled else row


def _arms(verdict: Verdict | None) -> dict[str, ArmCost]:
    cost = None if verdict is None else verdict.cost
    return {} if cost is None else {one.arm: one for one in cost.arms}


def _with_verdict(row: Row, verdict: Verdict) -> Row:
    arms = _arms(verdict).values()
    by_name = {candidate.arm: candidate for candidate in verdict.candidates}
    first = next(iter(verdict.candidates), None)
    about: CandidateVerdict | None = by_name.get(verdict.decision.arm, first)
    row = replace(
        row,
        registered=verdict.decision.arm,
        trained=ALL if verdict.candidates else verdict.baseline.arm,
        seconds=_sum([arm.jobs * arm.job.seconds for arm in arms]),
        usd=_sum([None if arm.job.usd is None else arm.jobs * arm.job.usd for arm in arms]),
    )
    if about is None:
        return row
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


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum; None where a part is not known, or there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _with_settled(row: Row, event: Settled) -> Row:
    """What the record knows better: an arm alone, and an execution that failed."""
    named = [one for one in event.seen if one.arm == (row.arm or row.trained)]
    seen = next(iter([*named, *event.seen]), None)
    row = replace(row, registered=event.registered if event.registered != "none" else "")
    if seen is None or row.metrics:
        return row
    return replace(row, arm=seen.arm, outcome=seen.outcome, metrics=_alone(seen))


def _alone(seen: Seen) -> tuple[Measured, ...]:
    return tuple(
        Measured(metric=name, value=-value if name in seen.turned else value)
        for name, value in seen.values.items()
    )


def _with_savings(row: Row, arms: Mapping[str, ArmCost], baseline: ArmCost | None) -> Row:
    """Measured, and not what a list says: nothing is claimed where a job's time is not known."""
    audit = row.posture == Posture.ON and row.trained == ALL
    alone = row.trained not in {ALL, BASELINE}
    candidate = arms.get(row.arm if audit else row.trained)
    if candidate is None:
        return row
    own = candidate.job
    if audit:
        return replace(
            row,
            saved_seconds=_less(own.seconds, row.seconds),
            saved_usd=_less(own.usd, row.usd),
        )
    if not alone or baseline is None:
        return row
    return replace(
        row,
        saved_seconds=_less(baseline.job.seconds, own.seconds),
        saved_usd=_less(baseline.job.usd, own.usd),
    )


def _less(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _changes(before: Row | None, row: Row, decisions: Sequence[Decision]) -> Iterator[str]:
    if before is None:
        return
    if before.posture != row.posture:
        yield f"posture {before.posture or 'none'} -> {row.posture or 'none'}"
    if before.registered and row.registered and before.registered != row.registered:
        yield f"registers {row.registered}"
    old, new = before.versions or {}, row.versions or {}
    changed = [name for name in new if old and old.get(name) != new[name]]
    if changed:
        yield f"{' and '.join(changed)} changed"
    for decision in decisions:
        after_start = before.started < decision.event.when <= row.started
        if after_start and isinstance(decision.event, SetByPerson | Reset | Lost):
            yield decision.reason


def saved_so_far(rows: Sequence[Row]) -> str:
    """The hours and dollars that the candidate saved, measured; empty where it never trained
    alone."""
    alone = [row for row in rows if row.trained not in {ALL, BASELINE}]
    audits = [row for row in rows if row.posture == Posture.ON and row.trained == ALL]
    measured = [row for row in [*alone, *audits] if row.saved_seconds is not None]
    if not alone:
        return ""
    if not any(row in measured for row in alone):
        return "Saved so far: not measured"
    usd = _sum([row.saved_usd for row in measured])
    unknown = len(alone) + len(audits) - len(measured)
    return (
        f"Saved so far: {sum(row.saved_seconds or 0.0 for row in measured) / 3600:.2f} hours, "
        f"{'dollars unknown' if usd is None else f'{usd:.2f} USD'} (measured; executions with the "
        f"candidate alone: {len(alone)}; audits, whose cost is subtracted: {len(audits)}"
        f"{f'; not measured: {unknown}' if unknown else ''})"
    )


@dataclass(frozen=True, kw_only=True)
class Line:
    """A workload in one line of the portfolio."""

    workload: str
    executions: int
    last: str
    posture: str
    registered: str
    since: str
    """Since when that arm has been registered without a break: its age."""
    speedup: Interval | None
    """The newest that was measured."""
    seconds: float
    usd: float | None
    """None where no execution knows its price."""


def line_of(workload: str, rows: Sequence[Row]) -> Line:
    """The portfolio's line of a workload that was executed."""
    registered = next((row.registered for row in reversed(rows) if row.registered), "")
    since = ""
    for row in reversed(rows):
        if row.registered and row.registered != registered:
            break
        since = row.started if row.registered else since
    paid = [row.usd for row in rows if row.usd is not None]
    return Line(
        workload=workload,
        executions=len(rows),
        last=rows[-1].started,
        posture=rows[-1].posture,
        registered=registered,
        since=since,
        speedup=next((row.speedup for row in reversed(rows) if row.speedup is not None), None),
        seconds=sum(row.seconds or 0.0 for row in rows),
        usd=sum(paid) if paid else None,
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
        _hours(row.seconds),
        _dollars(row.usd),
        "; ".join(row.changes) or "-",
    )


def line_cells(line: Line) -> tuple[str, ...]:
    """A workload for the portfolio's table."""
    return (
        line.workload,
        str(line.executions),
        line.last[:10],
        line.posture or "-",
        line.registered or "none",
        line.since[:10] or "-",
        _speedup(line.speedup),
        _hours(line.seconds),
        _dollars(line.usd),
    )


def _metric(one: Measured) -> str:
    if one.delta is None:
        return f"{one.metric} {one.value:.4g}"
    delta = one.delta
    return (
        f"{one.metric} {one.value:.4g} ({delta.estimate:+.2g}, {delta.lower:+.2g} to "
        f"{delta.upper:+.2g})"
    )


def _speedup(found: Interval | None) -> str:
    if found is None:
        return "-"
    return f"{found.estimate:.2f} ({found.lower:.2f} to {found.upper:.2f})"


def _hours(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 3600:.2f}"


def _dollars(usd: float | None) -> str:
    return "unknown" if usd is None else f"{usd:.2f}"
