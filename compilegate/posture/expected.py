"""What advice expected of an arm, beside what was measured: in a report, in a month, in a mail.

A deployment notes the expectation with the function that keeps the record, in the standard library
alone, because no advice can be asked there. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from compilegate.posture.machine.events import Seen, Settled
from compilegate.posture.records.coding import decoded
from compilegate.posture.records.record import Decision

MOST_CHARACTERS = 2500
"""All variables of a function together hold 4 KB."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The speed-up that advice expects of one arm, old time over new."""

    arm: str
    low: float
    high: float
    rests_on: str
    """`published`, `measured` or another word for where the range comes from."""
    machine: str
    """What it was expected for."""
    trains_on: str
    """What the arm trains on."""


def noted(expected: Iterable[Expected]) -> str:
    """As text for a function's environment; arms that do not fit are left out, the last first."""
    kept = [asdict(each) for each in expected]
    while len(text := json.dumps(kept, separators=(",", ":"))) > MOST_CHARACTERS:
        kept.pop()
    return text


def read_noted(text: str) -> tuple[Expected, ...]:
    """What `noted` wrote. Raises DamagedRecordError for anything else that is JSON."""
    return tuple(decoded(Expected, each) for each in json.loads(text))


def beside(
    expected: tuple[float, float],
    measured: tuple[float, float],
    *,
    machine: str,
    rests_on: str,
    measured_on: str,
) -> str:
    """Both ranges of a speed-up in one sentence; they agree where they overlap."""
    meets = expected[0] <= measured[1] and measured[0] <= expected[1]
    return (
        f"{_times(expected)} times as fast was expected for {machine} ({rests_on}); "
        f"{_times(measured)} was measured on {measured_on}, "
        f"{'as expected' if meets else 'not as expected'}"
    )


def beside_decisions(
    expected: Sequence[Expected], decisions: Sequence[Decision]
) -> Iterator[tuple[str, str]]:
    """For each arm with an expectation, in the newest of these decisions whose execution measured
    a speed-up: a row's name, and the two in one sentence."""
    of_arm = {each.arm: each for each in expected}
    for seen in _newest_measured(decisions):
        told = of_arm.get(seen.arm)
        if told is not None and seen.speedup is not None and seen.speedup_upper is not None:
            yield (
                f"Advice on {seen.arm}",
                beside(
                    (told.low, told.high),
                    (seen.speedup, seen.speedup_upper),
                    machine=told.machine,
                    rests_on=told.rests_on,
                    measured_on=told.trains_on,
                ),
            )


def _newest_measured(decisions: Sequence[Decision]) -> Sequence[Seen]:
    for decision in reversed(decisions):
        event = decision.event
        if isinstance(event, Settled) and any(one.speedup_upper is not None for one in event.seen):
            return event.seen
    return ()


def _times(ends: tuple[float, float]) -> str:
    low, high = (f"{each:.2f}" for each in ends)
    return low if low == high else f"{low} to {high}"
