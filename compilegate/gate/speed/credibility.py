"""Is a speed-up to be believed, and is it the compiler's? What is asked after it was measured.

- Beyond what a compiler can do, or a batch so many times as large, it is a wrong unit, or steps
  that nobody waited for.
- Speeds that are equal to the last digit in all jobs were rounded: they have no spread, and what
  rounding took away may be all of the difference.
- A training that is not over earlier, though its steps are faster, loses the time elsewhere:
  compilation and lost machines apart, it is checkpoints, or what else is of no step.
- Arms on different machines have a speed-up of compiler and machine together. That may be what was
  wanted, and is said; where nobody recorded the machine, nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compilegate.evidence import Evidence, FloatArray
from compilegate.gate.judgements import SpeedJudgement
from compilegate.gate.reasons import Code, Outcome, Reason, clipped, failure
from compilegate.gate.settings import ArmDeclaration, GateSettings
from compilegate.gate.speed.arm_speed import ArmSpeed

HARDWARE = ("accelerator", "cpu", "device", "gpu", "hardware", "instance", "processor", "tpu")
"""Parts of the names under which jobs record what they ran on."""
NOTHING_TOLD = frozenset(
    {
        "",
        "unknown",
        "none",
        "null",
        "nil",
        "n/a",
        "na",
        "nan",
        "?",
        "-",
        "todo",
        "tbd",
        "not available",
    }
)
"""What stands for a name that was not found."""
COUNTS = ("cores", "count", "accelerators", "threads", "memory")
"""Parts of names of such keys that say how many, and not of what."""
DECIMALS = 9
DRIFT = 1.15
"""Times by which the halves of all of an arm's trainings differ that become slower on the way."""
FEWEST_IN_HALVES = 20
MOST_OF_NO_STEP = 5.0
"""Seconds that a training may spend beside its steps more than the baseline's, whatever it is."""
PART_OF_NO_STEP = 0.05
"""The same as a part of the baseline's seconds in steps."""
MOST_BESIDE = 60.0
"""Seconds that a job may take beside its training more than the baseline's, whatever it is: an
import on a loaded machine, data that one job fetches and the next one finds."""
PART_BESIDE = 0.1
"""The same as a part of the baseline's training."""
TIMES_COMPILING = 2.0
"""The same as times what compiling takes: the model that is evaluated compiles once more."""


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
    if judgement.outcome is not Outcome.PASS:
        return
    required = judgement.required_speedup or judgement.min_speedup
    yield from _lost_elsewhere(baseline, candidate, required)
    yield from _lost_beside(baseline, candidate, settings.repaid_within_runs)
    if judgement.paired is not None:
        return
    yield from _drifts(judgement, baseline, candidate)
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
    if printed and lowest < required * (1.0 - 1e-9):
        yield _rounded(
            f"The speeds are printed with so few digits that the speed-up may be {lowest:.2f}, and "
            f"at least {required:.2f} is required. Print more digits."
        )


def _drifts(judgement: SpeedJudgement, baseline: ArmSpeed, candidate: ArmSpeed) -> Iterator[Reason]:
    """The reason against a speed-up that is there in one half of the trainings alone, because all
    jobs of an arm become slower, or faster, on the way."""
    before, after = _halves(baseline), _halves(candidate)
    if before is None or after is None:
        return
    batches = candidate.batch_size / baseline.batch_size
    by_half = batches * before.mean(axis=0) / after.mean(axis=0)
    required = judgement.required_speedup or judgement.min_speedup
    for name, halves in (("baseline", before), ("candidate", after)):
        times = halves[:, 1] / halves[:, 0]
        if by_half.min() >= required or not ((times > DRIFT).all() or (times < 1.0 / DRIFT).all()):
            continue
        yield Reason(
            Code.SPEED_DRIFTS,
            Outcome.INCONCLUSIVE,
            f"In all jobs of the {name} a step of the training's second half takes "
            f"{float(np.median(times)):.2f} times as long as one of the first: the speed-up is "
            f"{by_half[0]:.2f} in the first half and {by_half[1]:.2f} in the second.",
            {"first": float(by_half[0]), "second": float(by_half[1])},
        )
        return


def _halves(arm: ArmSpeed) -> FloatArray | None:
    """(jobs, 2) median seconds of a steady step in each half of the training."""
    runs = arm.runs
    if runs is None or min(map(len, runs.steady_seconds), default=0) < FEWEST_IN_HALVES:
        return None
    halves = (np.array_split(seconds, 2) for seconds in runs.steady_seconds)
    return np.array([[float(np.median(half)) for half in each] for each in halves])


def _lost_elsewhere(baseline: ArmSpeed, candidate: ArmSpeed, required: float) -> Iterator[Reason]:
    """The reason against a training with faster steps that loses what these save between them.

    What a loaded machine, or a compilation that is told too short, takes beside the steps is none.
    """
    before, after = _whole(baseline), _whole(candidate)
    if before is None or after is None:
        return
    explained = max(MOST_OF_NO_STEP, PART_OF_NO_STEP * before.in_steps, after.compilation)
    lost = after.of_no_step - before.of_no_step
    if lost < explained:
        return
    step, other = before.in_steps / before.examples, (after.in_steps + lost) / after.examples
    if step / other >= required:
        return
    yield Reason(
        Code.SPEED_LOST_ELSEWHERE,
        Outcome.INCONCLUSIVE,
        "Its steps are faster, and its trainings lose that again: without compilation and lost "
        f"machines they took {after.seconds:.0f} s, the baseline's {before.seconds:.0f} s. "
        f"{after.of_no_step:.0f} s are of no step: see how long checkpoints take, and whether the "
        "device is waited for before a step is timed.",
        {"seconds": after.seconds, "baseline_seconds": before.seconds},
    )


def _lost_beside(
    baseline: ArmSpeed, candidate: ArmSpeed, repaid_within_runs: float
) -> Iterator[Reason]:
    """The reason against jobs that take longer beside their training than it saves: something may
    have compiled before the first step was timed."""
    before, after = _whole(baseline), _whole(candidate)
    if before is None or after is None or baseline.runs is None or candidate.runs is None:
        return
    usual, own = baseline.runs.beside_seconds, candidate.runs.beside_seconds
    explained = max(MOST_BESIDE, PART_BESIDE * before.seconds, TIMES_COMPILING * after.compilation)
    saved = before.seconds * after.examples / before.examples - after.seconds
    if own - usual < max(explained, saved * repaid_within_runs):
        return
    yield Reason(
        Code.SPEED_LOST_ELSEWHERE,
        Outcome.INCONCLUSIVE,
        f"Its jobs take {own:.0f} s beside the training and the baseline's {usual:.0f} s, more "
        "than the faster steps save. See whether something compiles before the first step.",
        {"seconds": own, "baseline_seconds": usual},
    )


@dataclass(frozen=True)
class _Whole:
    """What a training takes on average, without compilation and lost machines."""

    seconds: float
    in_steps: float
    examples: float
    compilation: float

    @property
    def of_no_step(self) -> float:
        return self.seconds - self.in_steps


def _whole(arm: ArmSpeed) -> _Whole | None:
    runs = arm.runs
    if runs is None or not runs.steps:
        return None
    lost = runs.lost_seconds / len(arm.rates)
    examples = float(runs.steps * arm.batch_size)
    in_steps = examples / arm.rate
    # Of these trainings, and not of the next one: a first job that compiled all is in their mean.
    seconds = max(runs.train_seconds - lost - runs.spent_compiling, in_steps)
    return _Whole(seconds, in_steps, examples, runs.spent_compiling)


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
        value not in (None, 0, False)
        and str(value).strip().lower() not in NOTHING_TOLD
        and any(part in key.lower() for part in HARDWARE)
        and not any(part in key.lower() for part in COUNTS)
        for key, value in evidence.environment.items()
    )
