"""Speed: does a candidate train faster than the baseline, by enough, and in a run of this length?

Two limits are put to the speed-up of the steady state (`speedup`): the declared minimum, and what
it takes to repay the compilation within one run (`repayment`). The larger one decides.
"""

from __future__ import annotations

import math

from compilegate.gate.judgements import (
    Interval,
    PairedJudgement,
    RunJudgement,
    SpeedJudgement,
    SpeedSource,
)
from compilegate.gate.reasons import Code, Note, Number, Outcome, Reason, interval_name
from compilegate.gate.settings import GateSettings
from compilegate.gate.speed.arm_speed import ArmSpeed, UnknownSpeed
from compilegate.gate.speed.paired import Pairs, jobs_to_settle, judge_pairs, steps_in_turns
from compilegate.gate.speed.repayment import Repayment, break_even_samples, repayment
from compilegate.gate.speed.speedup import seeds_to_settle, speedup_interval, surviving_a_stall
from compilegate.gate.statistics.sample_size import MOST_SEEDS

STAY_OFF_BELOW = 1.10
"""Under this speed-up a compiler does not pay for the risk and the work of keeping it on."""
NO_PAIRS = Pairs()
_NOT_IN_TURNS = "Steps of both arms were not timed in turns"
_EXACTLY = 1.0 - 1e-9
"""The last bits of a ratio that is exactly at its limit may be lacking."""
_TOLD_REST = 0.02
"""From which share of a step on the rest of it is told."""
_BY_JOBS = "The jobs' own step times decided."
_PAIRS_DECIDED = "Those taken in turns decided, since one process has one machine and one moment."
_NEITHER_DECIDED = (
    "So neither decided: look at what the training does besides its steps (loader, evaluation, "
    "shapes), and run again on a quieter machine."
)
_TOO_SHORT = "such a run is too short to be worth compiling"
_LEADS = {
    Outcome.PASS: "Fast enough",
    Outcome.INCONCLUSIVE: "Not settled",
    Outcome.FAIL: "Not fast enough",
}
AT_LIMIT = 0.02
"""How near, as a logarithm, a speed-up is at the limit."""
FAR_APART = 2.5
"""Times by which two measurements of one speed-up differ that no neighbour of a job explains."""
MOST_FURTHER = 2
"""Sentences after the first."""
_RUN_AGAIN = "This says nothing about the compiler; run again when the machine is quiet."


def judge_speed(
    baseline: ArmSpeed | UnknownSpeed,
    candidate: ArmSpeed | UnknownSpeed,
    settings: GateSettings,
    confidence: float,
    pairs: Pairs = NO_PAIRS,
    *,
    busy_machine: str | None = None,
) -> tuple[SpeedJudgement | None, Reason]:
    """Compare two arms' speeds with what is required; the reason gives the outcome in words.

    Steps taken in turns come first; the jobs' own step times decide where there are too few of
    these. Both are asked where both are there: see `_outcome`. `busy_machine` is what
    `machine.busy_machine` says of the jobs of both arms.
    """
    if isinstance(baseline, UnknownSpeed):
        return None, _unmeasured("baseline", baseline)
    if isinstance(candidate, UnknownSpeed):
        return None, _unmeasured("candidate", candidate)
    speedup, one_run = speedup_interval(baseline, candidate, confidence)
    # What contradicts what must not depend on how many candidates there are.
    by_jobs, _ = speedup_interval(baseline, candidate, settings.confidence)
    paired = judge_pairs(pairs.jobs, confidence) if pairs.decide else None
    if paired is not None:
        speedup, one_run = paired.speedup, False
    elif not one_run:
        speedup = surviving_a_stall(speedup, len(candidate.rates))
    repaid = repayment(baseline, candidate, runs=settings.repaid_within_runs)
    required: float | None = settings.min_speedup
    if repaid is not None:
        required = None if repaid.speedup is None else max(settings.min_speedup, repaid.speedup)
    disagree = pairs.decide and _apart(
        judge_pairs(pairs.jobs, settings.confidence).speedup, by_jobs
    )
    outcome = _outcome(speedup, required)
    far_apart = abs(math.log(speedup.estimate / by_jobs.estimate)) > math.log(FAR_APART)
    both_pass = _outcome(by_jobs, required) is Outcome.PASS and not far_apart
    if disagree and outcome is Outcome.PASS and not both_pass:
        outcome = Outcome.INCONCLUSIVE
    not_repaid = outcome is Outcome.FAIL and speedup.upper >= settings.min_speedup
    if not_repaid and busy_machine is not None:
        # What compiling takes is timed once in a job, beside whatever else runs then.
        outcome = Outcome.INCONCLUSIVE
    if candidate.holds_compilation and outcome is not Outcome.PASS:
        return None, _unmeasured("candidate", _average(speedup))
    seeds_needed = None
    if outcome is Outcome.INCONCLUSIVE and required is not None and busy_machine is None:
        seeds_needed = (
            seeds_to_settle(baseline, candidate, required, confidence)
            if paired is None
            else jobs_to_settle(pairs.jobs, required, confidence)
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
        seeds=min(len(baseline.rates), len(candidate.rates)) if paired is None else paired.jobs,
        seeds_needed=seeds_needed,
        run=_run(baseline, candidate, repaid, speedup.estimate),
        source=SpeedSource.JOBS if paired is None else SpeedSource.PAIRS,
        paired=paired,
        by_jobs=by_jobs,
        disagree=disagree,
        busy_machine=busy_machine,
    )
    interrupted = _interrupted("baseline", baseline) + _interrupted("candidate", candidate)
    return judgement, _reason(judgement, confidence, interrupted)


def about_pairs(judgement: SpeedJudgement, pairs: Pairs) -> list[Note]:
    """What is to be known of steps taken in turns, and decides nothing."""
    notes = []
    if judgement.disagree and _code(judgement) is not Code.SPEED_DISAGREES:
        notes.append(Note(Code.SPEED_DISAGREES, f"{_contradiction(judgement)} {_PAIRS_DECIDED}"))
    if judgement.source is SpeedSource.PAIRS:
        left_out = "Some jobs' steps were not timed in turns"
        notes += [Note(Code.SPEED_NOT_PAIRED, f"{left_out}: {why}.") for why in pairs.obstacles]
        return notes
    notes += [
        Note(Code.SPEED_NOT_PAIRED, f"{_NOT_IN_TURNS}: {why}. {_BY_JOBS}")
        for why in pairs.obstacles
    ]
    if len(pairs.jobs) == 1:
        ratio = steps_in_turns(pairs.jobs[0])
        sentence = (
            f"Steps taken in turns say {ratio:.2f} times, in a single job: how much jobs differ is "
            f"not known, and two are the least that show it. {_BY_JOBS}"
        )
        notes.append(Note(Code.SPEED_NOT_PAIRED, sentence, {"speedup": ratio}))
    return notes


def _apart(one: Interval, other: Interval) -> bool:
    return one.upper < other.lower or other.upper < one.lower


def _contradiction(judgement: SpeedJudgement) -> str:
    turns, jobs = judgement.speedup, judgement.by_jobs or judgement.speedup
    return (
        f"Steps taken in turns say {turns.estimate:.2f} times ({turns.lower:.2f} to "
        f"{turns.upper:.2f}), the jobs' own step times {jobs.estimate:.2f} ({jobs.lower:.2f} to "
        f"{jobs.upper:.2f}): the two disagree."
    )


def _run(
    baseline: ArmSpeed, candidate: ArmSpeed, repaid: Repayment | None, speedup: float
) -> RunJudgement | None:
    before, after = baseline.runs, candidate.runs
    if before is None or after is None or repaid is None:
        return None
    break_even = break_even_samples(baseline, candidate, speedup)
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
    )


def _outcome(speedup: Interval, required: float | None) -> Outcome:
    """A candidate passes by its lower bound and fails by its upper one.

    Steps taken in turns decide before the jobs' own step times do, which a neighbour of one job
    moves. But where the two contradict each other, and the jobs' own would not pass, something may
    slow this training that its steps taken again do not show. Nobody knows then, and nothing
    passes.
    """
    if required is None or speedup.upper < required * _EXACTLY:
        return Outcome.FAIL
    return Outcome.PASS if speedup.lower >= required * _EXACTLY else Outcome.INCONCLUSIVE


def _advice(speedup: Interval, outcome: Outcome, minimum: float, required: float | None) -> str:
    if outcome is Outcome.PASS:
        return "turn it on"
    if outcome is Outcome.INCONCLUSIVE:
        return "measure again, with more seeds or for longer"
    if speedup.estimate < STAY_OFF_BELOW:
        return "leave it off"
    if speedup.upper >= minimum and (required is None or speedup.upper < required):
        return _TOO_SHORT
    return "leave it off, or accept a lower min_speedup"


def _code(judgement: SpeedJudgement) -> Code:
    if judgement.outcome is Outcome.PASS:
        return Code.SPEED_FASTER
    if judgement.outcome is Outcome.INCONCLUSIVE:
        if judgement.busy_machine is not None:
            return Code.SPEED_BUSY_MACHINE
        required = judgement.required_speedup
        passes = required is not None and judgement.speedup.lower >= required
        return Code.SPEED_DISAGREES if passes else Code.SPEED_UNDECIDED
    below = judgement.speedup.upper < judgement.min_speedup
    return Code.SPEED_BELOW_MINIMUM if below else Code.SPEED_NOT_REPAID


def _reason(judgement: SpeedJudgement, confidence: float, interrupted: str) -> Reason:
    speedup = judgement.speedup
    sentence = (
        f"{_LEADS[judgement.outcome]}: {speedup.estimate:.2f} times as fast as the baseline, "
        f"between {speedup.lower:.2f} and {speedup.upper:.2f} "
        f"({interval_name(confidence)}){_by(judgement.paired)}; {_required(judgement)}."
    )
    # One reading: the decision, and no more than two sentences that explain it.
    further = [
        _why_neither(judgement),
        _too_busy(judgement),
        _what_settles_it(judgement),
        _one_run(judgement),
        _when_paid_for(judgement.run),
        interrupted,
        _compilation(judgement.run),
        _advised(judgement),
    ]
    sentence += "".join([each for each in further if each][:MOST_FURTHER])
    numbers: dict[str, Number] = {
        "speedup": speedup.estimate,
        "lower": speedup.lower,
        "upper": speedup.upper,
        "min_speedup": judgement.min_speedup,
        "required_speedup": judgement.required_speedup,
        "break_even_steps": None if judgement.run is None else judgement.run.break_even_steps,
        "seeds_needed": judgement.seeds_needed,
        "source": judgement.source,
    }
    return Reason(_code(judgement), judgement.outcome, sentence, numbers)


def _why_neither(judgement: SpeedJudgement) -> str:
    if _code(judgement) is not Code.SPEED_DISAGREES:
        return ""
    return f" {_contradiction(judgement)} {_NEITHER_DECIDED}"


def _one_run(judgement: SpeedJudgement) -> str:
    if not judgement.conditional_on_run or judgement.outcome is Outcome.INCONCLUSIVE:
        return ""
    return " One job of each arm was timed, so this says nothing of the next one."


def _advised(judgement: SpeedJudgement) -> str:
    if judgement.outcome is not Outcome.FAIL:
        return ""
    return f" {judgement.advice[0].upper()}{judgement.advice[1:]}."


def _by(paired: PairedJudgement | None) -> str:
    """What the speed-up was measured by, where that is not the jobs' own step times."""
    if paired is None:
        return ""
    rest = ""
    if paired.rest_share >= _TOLD_REST:
        rest = (
            f", {paired.steps_alone:.2f} times without the {paired.rest_share * 100:.0f}% of a "
            "step that loader, loss and logging take"
        )
    return f", by {paired.pairs} pairs of blocks taken in turns in {paired.jobs} jobs{rest}"


def _required(judgement: SpeedJudgement) -> str:
    """The one limit that decides: the declared one, or what repays compilation where that is
    more."""
    required, run = judgement.required_speedup, judgement.run
    if run is None or (required is not None and required <= judgement.min_speedup):
        return f"at least {judgement.min_speedup:.2f} is required"
    limit = "no speed-up is enough" if required is None else f"at least {required:.2f} is required,"
    return (
        f"{limit} to repay {run.candidate_compile_seconds:.1f} s of {run.compile_state} "
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


def _too_busy(judgement: SpeedJudgement) -> str:
    if _code(judgement) is not Code.SPEED_BUSY_MACHINE:
        return ""
    return f" The machine was busy: {judgement.busy_machine}. {_RUN_AGAIN}"


def _what_settles_it(judgement: SpeedJudgement) -> str:
    unsettled = (Code.SPEED_BUSY_MACHINE, Code.SPEED_DISAGREES)  # seeds are not what is lacking
    if judgement.outcome is not Outcome.INCONCLUSIVE or _code(judgement) in unsettled:
        return ""
    if judgement.seeds_needed is not None:
        return (
            f" About {judgement.seeds_needed} seeds instead of {judgement.seeds} would settle it."
        )
    if judgement.conditional_on_run:
        return " One job of each arm shows no spread: declare two seeds or more."
    required = judgement.required_speedup or judgement.min_speedup
    at_limit = abs(math.log(judgement.speedup.estimate / required)) < AT_LIMIT
    why = "the speed-up is at the limit" if at_limit else "the jobs differ too much"
    return f" Even {MOST_SEEDS} seeds would not settle it: {why}."


def _when_paid_for(run: RunJudgement | None) -> str:
    """A warning where faster steps do not make runs like these end earlier."""
    needed = None if run is None else run.break_even_steps
    if run is None or needed is None or needed <= run.candidate_steps:
        return ""
    return (
        f" A {run.compile_state} compilation breaks even after {needed:,} steps, and these runs "
        f"have {run.candidate_steps:,}."
    )


def _average(speedup: Interval) -> UnknownSpeed:
    """A slow average says nothing of the steady speed; one that is fast enough says all."""
    return UnknownSpeed(
        "printed an average speed, in which the time to compile is "
        f"({speedup.estimate:.2g} times the baseline's speed); print the speed of each interval of "
        "steps, or time them with compilegate.job"
    )


def _unmeasured(role: str, unknown: UnknownSpeed) -> Reason:
    sentence = f"Speed was not measured: a job of the {role} {unknown.why}."
    return Reason(Code.SPEED_UNMEASURED, Outcome.INCONCLUSIVE, sentence)
