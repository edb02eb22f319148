"""What advice expected before an execution, beside what the execution measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from compilegate.advice.judging import Advice
from compilegate.advice.known.experience import Experience, option_of
from compilegate.advice.ranges import Range
from compilegate.job.names import BASELINE_ARM
from compilegate.posture.expected import Expected, beside
from compilegate.workload import Workload


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
    """For each candidate whose option was foretold: its arm, and the two in one sentence."""
    of_option = {each.option: each for each in expected}
    for each in measured:
        told = of_option.get(each.option)
        if told is None:
            continue
        yield (
            each.arm,
            beside(
                (told.speedup.low, told.speedup.high),
                (each.speedup.low, each.speedup.high),
                machine=told.machine,
                rests_on=told.rests_on,
                measured_on=each.machine,
            ),
        )


def foretold_of_arms(advice: Advice, workload: Workload) -> tuple[Expected, ...]:
    """What is expected of each candidate that the workload declares and the rules know."""
    of_option = {each.option: each for each in foretold(advice)}
    baseline = workload.arms.get(BASELINE_ARM)
    found = []
    for name, arm in workload.candidates.items():
        option = option_of(
            arm.compiler,
            backend=arm.compiler_options.get("backend"),
            precision=arm.precision,
            before=None if baseline is None else baseline.precision,
        )
        told = of_option.get(option or "")
        if told is not None:
            found.append(
                Expected(
                    arm=name,
                    low=told.speedup.low,
                    high=told.speedup.high,
                    rests_on=told.rests_on,
                    machine=told.machine,
                    trains_on=arm.instance_type or workload.compute.instance_type or "this machine",
                )
            )
    return tuple(found)
