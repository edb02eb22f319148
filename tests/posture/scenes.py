"""A workload's executions as events, with days that a test sets."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from compilegate.posture.contract import Policy
from compilegate.posture.records import Record
from compilegate.posture.state import (
    Chosen,
    Difference,
    Event,
    Outcome,
    Plan,
    Posture,
    Seen,
    Settled,
    Started,
)

FIRST = datetime.datetime(2026, 1, 5, 6, tzinfo=datetime.UTC)
HERE = {"code": "c1", "data": "d1", "image": "i1", "instance": "ml.g5.2xlarge", "libraries": "l1"}


def day(number: float) -> str:
    """A day of the test's year, at six."""
    return (FIRST + datetime.timedelta(days=number)).isoformat()


def started(
    name: str,
    number: float,
    *,
    fingerprint: Mapping[str, str] = HERE,
    policy: Policy = Policy(passes=2),  # noqa: B008  it is frozen
    candidates: tuple[str, ...] = ("compiled",),
) -> Started:
    return Started(
        execution=name,
        when=day(number),
        who="schedule",
        policy=policy,
        candidates=candidates,
        fingerprint=fingerprint,
    )


def seen(
    outcome: Outcome,
    *,
    arm: str = "compiled",
    difference: float = 0.0,
    value: float = 0.9,
    speedup: float = 1.4,
    broken: bool = False,
    crashed: bool = False,
) -> Seen:
    compared = Difference(
        metric="accuracy", difference=difference, standard_error=0.01, margin=0.02
    )
    return Seen(
        arm=arm,
        outcome=outcome,
        reason=f"{outcome} by the gate",
        speedup=speedup,
        differences=(compared,),
        values={"accuracy": value},
        broken=broken,
        crashed=crashed,
    )


def settled(
    name: str,
    number: float,
    *what: Seen,
    nothing: str = "",
    lost: str = "",
    registered: str = "baseline",
) -> Settled:
    return Settled(
        execution=name,
        when=day(number),
        who="gate",
        seen=what,
        registered=registered,
        nothing_learned=nothing,
        lost=lost,
    )


def put(posture: Posture, number: float = 0, arm: str = "") -> Chosen:
    reason = "set by anna: a wish"
    return Chosen(posture=posture, when=day(number), who="anna", reason=reason, arm=arm)


def benchmark(number: float = 0) -> Chosen:
    return put(Posture.BENCHMARK, number)


def after(*events: Event) -> Record:
    return Record(workload="news").after(*events)


def executed(record: Record, number: float, *what: Seen, **start: object) -> Record:
    """One execution, from its start to its end."""
    name = f"e{number:g}"
    record = record.after(started(name, number, **start))  # type: ignore[arg-type]
    return record.after(settled(name, number + 0.1, *what))


def planned(record: Record, number: float, **start: object) -> Plan:
    """What an execution that starts now would train."""
    return record.after(started("asked", number, **start)).state.open["asked"]  # type: ignore[arg-type]


def turned_on() -> Record:
    """A record in which the candidate was promoted on day 7."""
    return executed(executed(after(benchmark()), 0, seen("pass")), 7.1, seen("pass"))
