"""What advice expected before an execution, beside what the execution measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from compilegate.advice.judging import Advice
from compilegate.advice.known.experience import Experience
from compilegate.advice.ranges import Range


@dataclass(frozen=True, kw_only=True)
class Foretold:
    """What was expected of one option."""

    option: str
    speedup: Range
    """The whole run without compiling, old time over new."""
    rests_on: str
    machine: str

    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        return asdict(self)

    @classmethod
    def from_document(cls, raw: Mapping[str, Any]) -> Self:
        """Read what `document` wrote. Raises LookupError, TypeError or ValueError."""
        return cls(
            option=str(raw["option"]),
            speedup=Range(float(raw["speedup"]["low"]), float(raw["speedup"]["high"])),
            rests_on=str(raw["rests_on"]),
            machine=str(raw["machine"]),
        )


def foretold(advice: Advice) -> tuple[Foretold, ...]:
    """What advice expects of each option that can be expected to change a run's time."""
    machine = advice.facts.instance_type or "this machine"
    return tuple(
        Foretold(
            option=each.name,
            speedup=each.outcome.speedup,
            rests_on="" if each.basis is None else str(each.basis),
            machine=machine,
        )
        for each in advice.options
        if each.outcome is not None
    )


def beside_outcome(
    expected: Sequence[Foretold], measured: Sequence[Experience]
) -> Iterator[tuple[str, str]]:
    """For each candidate whose option was foretold: its arm, and both ranges of the speed-up in one
    sentence; they agree where they overlap."""
    of_option = {each.option: each for each in expected}
    for each in measured:
        told = of_option.get(each.option)
        if told is None:
            continue
        meets = told.speedup.low <= each.speedup.high and each.speedup.low <= told.speedup.high
        yield (
            each.arm,
            f"{_times(told.speedup)} times as fast was expected for {told.machine} "
            f"({told.rests_on}); {_times(each.speedup)} was measured on {each.machine}, "
            f"{'as expected' if meets else 'not as expected'}",
        )


def _times(ends: Range) -> str:
    low, high = f"{ends.low:.2f}", f"{ends.high:.2f}"
    return low if low == high else f"{low} to {high}"
