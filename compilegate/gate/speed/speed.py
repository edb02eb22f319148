"""Speed: does a candidate train faster than the baseline, by enough, and in a run of this length?

Two limits are put to the speed-up of the steady state (`speedup`): the declared minimum, and what
it takes to repay the compilation within one run (`repayment`). The larger one decides.
"""

from __future__ import annotations

import math

from compilegate.gate.reasons import Code, Number, Outcome, Reason
from compilegate.gate.settings import GateSettings
from compilegate.gate.speed.arm_speed import MIN_STEADY_STEPS, ArmSpeed
from compilegate.gate.speed.repayment import break_even_samples, repayment
from compilegate.gate.speed.speedup import seeds_to_settle, speedup_interval
from compilegate.gate.statistics.sample_size import MOST_SEEDS
from compilegate.gate.verdict import Interval, SpeedJudgement

STAY_OFF_BELOW = 1.10
"""Under this speed-up a compiler does not pay for the risk and the work of keeping it on."""
_TOO_SHORT = "such a run is too short to be worth compiling"


def judge_speed(
    baseline: ArmSpeed | None,
    candidate: ArmSpeed | None,
    settings: GateSettings,
    confidence: float,
) -> tuple[SpeedJudgement | None, Reason]:
    """Compare two arms' speeds with what is asked for; the reason says the outcome in words."""
    if baseline is None or candidate is None:
        return None, _unmeasured("baseline" if baseline is None else "candidate")
    speedup, one_run = speedup_interval(baseline, candidate, confidence)
    repaid = repayment(baseline, candidate, runs=settings.repaid_within_runs)
    required = None if repaid.speedup is None else max(settings.min_speedup, repaid.speedup)
    outcome = _outcome(speedup, required)
    seeds_needed = (
        seeds_to_settle(baseline, candidate, required, confidence)
        if outcome is Outcome.INCONCLUSIVE and required is not None
        else None
    )
    break_even = break_even_samples(baseline, candidate)
    judgement = SpeedJudgement(
        outcome=outcome,
        speedup=speedup,
        min_speedup=settings.min_speedup,
        required_speedup=required,
        repaid_within_steps=repaid.steps,
        repaid_compile_state=repaid.compile_state,
        repaid_compile_seconds=repaid.compile_seconds,
        conditional_on_run=one_run,
        baseline_samples_per_second=baseline.rate,
        candidate_samples_per_second=candidate.rate,
        baseline_compile_seconds=baseline.compilation.seconds,
        candidate_compile_seconds=candidate.compilation.seconds,
        compile_state=candidate.compilation.state,
        compile_cold=candidate.compilation.cold,
        compile_warm=candidate.compilation.warm,
        candidate_batch_size=candidate.batch_size,
        candidate_steps=candidate.steps,
        break_even_steps=(
            None if break_even is None else math.ceil(break_even / candidate.batch_size)
        ),
        break_even_minutes=(
            None
            if break_even is None
            else (baseline.compilation.seconds + break_even / baseline.rate) / 60.0
        ),
        train_time_ratio=(
            baseline.train_seconds / candidate.train_seconds if candidate.train_seconds else None
        ),
        baseline_train_seconds=baseline.train_seconds,
        candidate_train_seconds=candidate.train_seconds,
        baseline_peak_memory_bytes=baseline.peak_memory_bytes,
        candidate_peak_memory_bytes=candidate.peak_memory_bytes,
        advice=_advice(speedup, outcome, settings.min_speedup, required),
        seeds=min(len(baseline.rates), len(candidate.rates)),
        seeds_needed=seeds_needed,
    )
    interrupted = _interrupted("baseline", baseline) + _interrupted("candidate", candidate)
    return judgement, _reason(judgement, confidence, interrupted)


def _outcome(speedup: Interval, required: float | None) -> Outcome:
    if required is None or speedup.upper < required:
        return Outcome.FAIL
    return Outcome.PASS if speedup.lower >= required else Outcome.INCONCLUSIVE


def _advice(speedup: Interval, outcome: Outcome, minimum: float, required: float | None) -> str:
    if outcome is Outcome.PASS:
        return "fast enough to turn on"
    if required is not None and speedup.estimate >= required:
        return "fast enough if it holds: benchmark longer, or with more seeds"
    if speedup.estimate >= minimum:
        return _TOO_SHORT
    if speedup.estimate < STAY_OFF_BELOW:
        return "stay off"
    # A longer benchmark narrows the interval, which helps where the limit is within it.
    repaid = required is not None and speedup.upper >= required
    needs_a_longer_run = speedup.upper >= minimum and not repaid
    return f"borderline, and {_TOO_SHORT}" if needs_a_longer_run else "borderline: benchmark longer"


def _code(judgement: SpeedJudgement) -> Code:
    if judgement.outcome is Outcome.PASS:
        return Code.SPEED_FASTER
    if judgement.outcome is Outcome.INCONCLUSIVE:
        return Code.SPEED_UNDECIDED
    below = judgement.speedup.upper < judgement.min_speedup
    return Code.SPEED_BELOW_MINIMUM if below else Code.SPEED_NOT_REPAID


def _reason(judgement: SpeedJudgement, confidence: float, interrupted: str) -> Reason:
    speedup = judgement.speedup
    scope = " (of this one run)" if judgement.conditional_on_run else ""
    sentence = (
        f"Speed-up {speedup.estimate:.2f} times, between {speedup.lower:.2f} and "
        f"{speedup.upper:.2f} ({confidence * 100:g}% bounds){scope}; "
        f"at least {judgement.min_speedup:.2f} is asked for{_to_repay(judgement)}: "
        f"{judgement.advice}."
        f"{_what_settles_it(judgement)}{_compilation(judgement)}{_when_paid_for(judgement)}"
        f"{interrupted}"
    )
    numbers: dict[str, Number] = {
        "speedup": speedup.estimate,
        "lower": speedup.lower,
        "upper": speedup.upper,
        "min_speedup": judgement.min_speedup,
        "required_speedup": judgement.required_speedup,
        "break_even_steps": judgement.break_even_steps,
        "seeds_needed": judgement.seeds_needed,
    }
    return Reason(_code(judgement), judgement.outcome, sentence, numbers)


def _to_repay(judgement: SpeedJudgement) -> str:
    """The other limit, where it is the one that decides."""
    required = judgement.required_speedup
    if required is not None and required <= judgement.min_speedup:
        return ""
    limit = "no speed-up is enough" if required is None else f"{required:.2f}"
    return (
        f", and {limit} to repay {judgement.repaid_compile_seconds:.1f} s of "
        f"{judgement.repaid_compile_state} compilation within {judgement.repaid_within_steps:,} "
        "steps"
    )


def _interrupted(role: str, arm: ArmSpeed) -> str:
    """What lost machines did to an arm's times; nothing where none was lost."""
    if not arm.interruptions:
        return ""
    return (
        f" Interruptions of the {role}: {arm.interruptions}, which cost {arm.lost_seconds:.0f} s; "
        "they are in its time to train, and not in its steady steps."
    )


def _compilation(judgement: SpeedJudgement) -> str:
    """What compiling took in each state that was measured; nothing where nothing was compiled."""
    if not judgement.candidate_compile_seconds:
        return ""
    states = ((judgement.compile_cold, "cold"), (judgement.compile_warm, "warm"))
    told = [f"{time.seconds:.1f} s {state}" for time, state in states if time is not None]
    return f" Compiling took {', '.join(told)}."


def _what_settles_it(judgement: SpeedJudgement) -> str:
    if judgement.outcome is not Outcome.INCONCLUSIVE:
        return ""
    if judgement.seeds_needed is not None:
        return (
            f" About {judgement.seeds_needed} seeds instead of {judgement.seeds} would settle it."
        )
    if judgement.conditional_on_run:
        return " With two seeds or more the spread between jobs can be seen."
    return f" Even {MOST_SEEDS} seeds would not settle it: the speed-up is at the limit."


def _when_paid_for(judgement: SpeedJudgement) -> str:
    """A warning where faster steps do not make runs like these end earlier."""
    needed = judgement.break_even_steps
    if needed is None or needed <= judgement.candidate_steps:
        return ""
    return (
        f" A {judgement.compile_state} compilation breaks even after {needed:,} steps, and these "
        f"runs have {judgement.candidate_steps:,}."
    )


def _unmeasured(role: str) -> Reason:
    return Reason(
        Code.SPEED_UNMEASURED,
        Outcome.INCONCLUSIVE,
        f"Speed was not measured: a replicate of the {role} has fewer than {MIN_STEADY_STEPS} "
        "steady steps; train longer.",
        {"min_steady_steps": MIN_STEADY_STEPS},
    )
