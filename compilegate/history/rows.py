"""One row for each execution of a workload, oldest first. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from compilegate.gate.verdict import ArmCost, CandidateVerdict, Interval, Verdict
from compilegate.posture.machine.events import Seen, Settled, Started
from compilegate.posture.records.record import Decision, Record


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
    trained: str = "all"
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
    plain = [_row(past, decisions) for past in sorted(executions, key=lambda one: one.started)]
    befores: list[Row | None] = [None, *plain]
    return [
        replace(row, changes=tuple(_changes(before, row, decisions)))
        for before, row in zip(befores, plain, strict=False)
    ]


def _row(past: Past, decisions: Sequence[Decision]) -> Row:
    started = _started(past.execution, decisions)
    settled = _settled(past.execution, decisions)
    row = Row(
        execution=past.execution,
        started=datetime.datetime.fromtimestamp(past.started, datetime.UTC).isoformat(
            timespec="seconds"
        ),
        status=past.status,
    )
    if started is not None:
        row = replace(
            row,
            posture=str(started.after),
            versions=started.event.fingerprint if isinstance(started.event, Started) else None,
            started=started.event.when,
        )
    if past.verdict is not None:
        row = _with_verdict(row, past.verdict)
    if settled is not None:
        row = _with_settled(row, settled)
    return row


def _started(execution: str, decisions: Sequence[Decision]) -> Decision | None:
    return next(
        (
            one
            for one in decisions
            if isinstance(one.event, Started) and one.event.execution == execution
        ),
        None,
    )


def _settled(execution: str, decisions: Sequence[Decision]) -> Settled | None:
    return next(
        (
            one.event
            for one in decisions
            if isinstance(one.event, Settled) and one.event.execution == execution
        ),
        None,
    )


def _with_verdict(row: Row, verdict: Verdict) -> Row:
    alone = not verdict.candidates
    row = replace(
        row,
        registered=verdict.decision.arm,
        trained=verdict.baseline.arm if alone else "all",
        seconds=_sum([arm.jobs * arm.job.seconds for arm in _arms(verdict)]),
        usd=_sum(
            [None if arm.job.usd is None else arm.jobs * arm.job.usd for arm in _arms(verdict)]
        ),
    )
    about = _about(verdict)
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


def _arms(verdict: Verdict) -> Sequence[ArmCost]:
    return () if verdict.cost is None else verdict.cost.arms


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum; None where a part is not known, or there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _about(verdict: Verdict) -> CandidateVerdict | None:
    """The candidate that is registered; else the first."""
    by_name = {candidate.arm: candidate for candidate in verdict.candidates}
    first = verdict.candidates[0] if verdict.candidates else None
    return by_name.get(verdict.decision.arm, first)


def _with_settled(row: Row, event: Settled) -> Row:
    """What the record knows better: an arm alone, and an execution that failed."""
    seen = next((one for one in event.seen if one.arm == (row.arm or row.trained)), None)
    seen = seen or next(iter(event.seen), None)
    row = replace(row, registered=event.registered if event.registered != "none" else "")
    if seen is None or row.metrics:
        return row
    return replace(row, arm=seen.arm, outcome=seen.outcome, metrics=_alone(seen))


def _alone(seen: Seen) -> tuple[Measured, ...]:
    return tuple(
        Measured(metric=name, value=-value if name in seen.turned else value)
        for name, value in seen.values.items()
    )


def _changes(before: Row | None, row: Row, decisions: Sequence[Decision]) -> Iterable[str]:
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
        if after_start and type(decision.event).__name__ in {"SetByPerson", "Reset", "Lost"}:
            yield decision.reason


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
