"""Speed: does a candidate train faster than the baseline, by enough, and in a run of this length?

Two limits are put to the speed-up of the steady state (`speedup`): the declared minimum, and what
it takes to repay the compilation within one run (`repayment`). The larger one decides.
"""

from __future__ import annotations

import math

from compilegate.gate.judgements import Interval, RunJudgement, SpeedJudgement
from compilegate.gate.reasons import Code, Number, Outcome, Reason
from compilegate.gate.settings import GateSettings
from compilegate.gate.speed.arm_speed import ArmSpeed, UnknownSpeed
from compilegate.gate.speed.repayment import Repayment, break_even_samples, repayment
from compilegate.gate.speed.speedup import seeds_to_settle, speedup_interval
from compilegate.gate.statistics.sample_size import MOST_SEEDS

STAY_OFF_BELOW = 1.10
"""Under this speed-up a compiler does not pay for the risk and the work of keeping it on."""
_TOO_SHORT = "such a run is too short to be worth compiling"


def judge_speed(
    baseline: ArmSpeed | UnknownSpeed,
    candidate: ArmSpeed | UnknownSpeed,
    settings: GateSettings,
    confidence: float,
) -> tuple[SpeedJudgement | None, Reason]:
    """Compare two arms' speeds with what is required; the reason gives the outcome in words."""
    if isinstance(baseline, UnknownSpeed):
        return None, _unmeasured("baseline", baseline)
    if isinstance(candidate, UnknownSpeed):
        return None, _unmeasured("candidate", candidate)
    speedup, one_run = speedup_interval(baseline, candidate, confidence)
    repaid = repayment(baseline, candidate, runs=settings.repaid_within_runs)
    required: float | None = settings.min_speedup
    if repaid is not None:
        required = None if repaid.speedup is None else max(settings.min_speedup, repaid.speedup)
    outcome = _outcome(speedup, required)
    seeds_needed = (
        seeds_to_settle(baseline, candidate, required, confidence)
        if outcome is Outcome.INCONCLUSIVE and required is not None
        else None
    )
    judgement = SpeedJudgement(
        outcome=outcome,
        speedup=speedup,
        min_speedup=settings.min_speedup,
        required_speedup=required,
        conditional_on_run=one_run,
        baseline_samples_per_second=baseline.rate,
        candidate_samples_per_second=candidate.rate,
        advice=_advice(speedup, outcome, settings.min_speedup, required),
        seeds=min(len(baseline.rates), len(candidate.rates)),
        seeds_needed=seeds_needed,
        run=_run(baseline, candidate, repaid),
    )
    interrupted = _interrupted("baseline", baseline) + _interrupted("candidate", candidate)
    return judgement, _reason(judgement, confidence, interrupted)


def _run(baseline: ArmSpeed, candidate: ArmSpeed, repaid: Repayment | None) -> RunJudgement | None:
    before, after = baseline.runs, candidate.runs
    if before is None or after is None or repaid is None:
        return None
    break_even = break_even_samples(baseline, candidate)
    return RunJudgement(
        repaid_within_steps=repaid.steps,
        compile_state=after.compilation.state,
        baseline_compile_seconds=before.compilation.seconds,
        candidate_compile_seconds=after.compilation.seconds,
        compile_cold=after.compilation.cold,
        compile_warm=after.compilation.warm,
        candidate_batch_size=candidate.batch_size,
        candidate_steps=after.steps,
        break_even_steps=(
            None if break_even is None else math.ceil(break_even / candidate.batch_size)
        ),
        break_even_minutes=(
            None
            if break_even is None
            else (before.compilation.seconds + break_even / baseline.rate) / 60.0
        ),
        train_time_ratio=before.train_seconds / after.train_seconds
        if after.train_seconds
        else None,
        baseline_train_seconds=before.train_seconds,
        candidate_train_seconds=after.train_seconds,
        baseline_peak_memory_bytes=before.peak_memory_bytes,
        candidate_peak_memory_bytes=after.peak_memory_bytes,
    )


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
        f"at least {judgement.min_speedup:.2f} is required{_to_repay(judgement)}: "
        f"{judgement.advice}."
        f"{_what_settles_it(judgement)}{_compilation(judgement.run)}{_when_paid_for(judgement.run)}"
        f"{interrupted}"
    )
    numbers: dict[str, Number] = {
        "speedup": speedup.estimate,
        "lower": speedup.lower,
        "upper": speedup.upper,
        "min_speedup": judgement.min_speedup,
        "required_speedup": judgement.required_speedup,
        "break_even_steps": None if judgement.run is None else judgement.run.break_even_steps,
        "seeds_needed": judgement.seeds_needed,
    }
    return Reason(_code(judgement), judgement.outcome, sentence, numbers)


def _to_repay(judgement: SpeedJudgement) -> str:
    """The other limit, where it is the one that decides."""
    required, run = judgement.required_speedup, judgement.run
    if run is None or (required is not None and required <= judgement.min_speedup):
        return ""
    limit = "no speed-up is enough" if required is None else f"{required:.2f}"
    return (
        f", and {limit} to repay {run.candidate_compile_seconds:.1f} s of {run.compile_state} "
        f"compilation within {run.repaid_within_steps:,} steps"
    )


def _interrupted(role: str, arm: ArmSpeed) -> str:
    """What lost machines did to an arm's times; nothing where none was lost."""
    if arm.runs is None or not arm.runs.interruptions:
        return ""
    return (
        f" Interruptions of the {role}: {arm.runs.interruptions}, which cost "
        f"{arm.runs.lost_seconds:.0f} s: part of its time to train, and of no steady step."
    )


def _compilation(run: RunJudgement | None) -> str:
    """What compiling took in each state that was measured; nothing where nothing was compiled."""
    if run is None or not run.candidate_compile_seconds:
        return ""
    states = ((run.compile_cold, "cold"), (run.compile_warm, "warm"))
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


def _when_paid_for(run: RunJudgement | None) -> str:
    """A warning where faster steps do not make runs like these end earlier."""
    needed = None if run is None else run.break_even_steps
    if run is None or needed is None or needed <= run.candidate_steps:
        return ""
    return (
        f" A {run.compile_state} compilation breaks even after {needed:,} steps, and these runs "
        f"have {run.candidate_steps:,}."
    )


def _unmeasured(role: str, unknown: UnknownSpeed) -> Reason:
    sentence = f"Speed was not measured: a job of the {role} {unknown.why}."
    return Reason(Code.SPEED_UNMEASURED, Outcome.INCONCLUSIVE, sentence)
