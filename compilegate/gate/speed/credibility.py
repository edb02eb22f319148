"""Is a speed-up to be believed, and is it the compiler's? What is asked after it was measured.

- Beyond what a compiler can do, or a batch so many times as large, it is a wrong unit, or steps
  that nobody waited for.
- Speeds that are equal to the last digit in all jobs were rounded: they have no spread, and what
  rounding took away may be all of the difference.
- Arms on different machines have a speed-up of compiler and machine together. That may be what was
  wanted, and is said; where nobody recorded the machine, nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from compilegate.evidence import Evidence
from compilegate.gate.judgements import SpeedJudgement
from compilegate.gate.reasons import Code, Outcome, Reason, clipped, failure
from compilegate.gate.settings import ArmDeclaration, GateSettings
from compilegate.gate.speed.arm_speed import ArmSpeed

HARDWARE = ("accelerator", "cpu", "device", "gpu", "hardware", "instance", "processor", "tpu")
"""Parts of the names under which jobs record what they ran on."""
COUNTS = ("cores", "count", "accelerators", "threads", "memory")
"""Parts of names of such keys that say how many, and not of what."""
DECIMALS = 9


def doubts_of(
    judgement: SpeedJudgement, baseline: ArmSpeed, candidate: ArmSpeed, settings: GateSettings
) -> Iterator[Reason]:
    """Why the measured speed-up is not to be believed as it is."""
    speedup = judgement.speedup.estimate
    # A larger batch alone can be as many times as fast as it is larger.
    larger = max(candidate.batch_size / baseline.batch_size, 1.0)
    if speedup > settings.max_speedup * larger:
        yield failure(
            Code.SPEED_BEYOND_BELIEF,
            f"A speed-up of {speedup:,.4g} times is beyond what a compiler can do "
            f"(max_speedup = {settings.max_speedup:g}{_for_batch(larger)}): see whether both arms "
            "time their steps in seconds, and wait for them; raise max_speedup if it is true.",
            speedup=speedup,
            max_speedup=settings.max_speedup,
        )
    if judgement.outcome is not Outcome.PASS or judgement.paired is not None:
        return
    if all(len(arm.rates) > 1 and len(set(arm.rates)) == 1 for arm in (baseline, candidate)):
        yield _rounded(
            f"All jobs have the same speed, {baseline.rates[0]:g} samples a second in the baseline "
            f"and {candidate.rates[0]:g} in the candidate: they were rounded, so how much jobs "
            "differ is not known. Print more digits."
        )
        return
    printed = [arm for arm in (baseline, candidate) if arm.runs is None]
    lowest = judgement.speedup.lower
    for arm in printed:
        lowest *= 1.0 - half_a_digit(arm.rates) / arm.rate
    required = judgement.required_speedup or judgement.min_speedup
    if printed and lowest < required * (1.0 - 1e-9):
        yield _rounded(
            f"The speeds are printed with so few digits that the speed-up may be {lowest:.2f}, and "
            f"at least {required:.2f} is required. Print more digits."
        )


def _for_batch(larger: float) -> str:
    return f", for a batch {larger:.3g} times as large" if larger > 1 else ""


def _rounded(sentence: str) -> Reason:
    return Reason(Code.SPEED_NO_SPREAD, Outcome.INCONCLUSIVE, sentence)


def half_a_digit(values: Sequence[float]) -> float:
    """Half of the last decimal that any of the numbers has."""
    for decimals in range(DECIMALS):
        if all(round(value, decimals) == value for value in values):
            return 0.5 * 10.0**-decimals
    return 0.0


def with_machine(
    reason: Reason,
    declarations: tuple[ArmDeclaration, ArmDeclaration],
    evidence: tuple[Sequence[Evidence], Sequence[Evidence]],
) -> Reason:
    """The reason for a speed-up, where it is not the compiler's alone; else as it is."""
    before, after = (declared.instance_type for declared in declarations)
    if reason.code is not Code.SPEED_FASTER:
        return reason
    if before == after:
        if any(map(_knows_hardware, (each for arm in evidence for each in arm))):
            return reason
        sentence = (
            "No job recorded the hardware that it ran on, so that this is the speed-up of compiler "
            "and machine together, and of which is not known: record it in the environment (cpu, "
            f"accelerator, instance_type). {reason.sentence}"
        )
        return Reason(
            Code.CONFOUND_HARDWARE_UNKNOWN, Outcome.INCONCLUSIVE, sentence, reason.numbers
        )
    sentence = (
        f"By compiler and machine together, since the arms run on different instances "
        f"({clipped(str(after))} instead of {clipped(str(before))}): {reason.sentence}"
    )
    return replace(reason, code=Code.SPEED_WITH_MACHINE, sentence=sentence)


def _knows_hardware(evidence: Evidence) -> bool:
    return any(
        value not in (None, "", 0, False, "unknown")
        and any(part in key.lower() for part in HARDWARE)
        and not any(part in key.lower() for part in COUNTS)
        for key, value in evidence.environment.items()
    )
