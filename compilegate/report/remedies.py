"""What a person can do about an arm that was refused or is inconclusive. Pure.

Each remedy names the action and the rule that binds: its key and value, the value met, and what
would have passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from compilegate.gate.findings import Code, Reason, counted
from compilegate.gate.metrics import unit_of
from compilegate.gate.verdict import (
    BaselineVerdict,
    CandidateCost,
    CandidateVerdict,
    RunJudgement,
    SpeedJudgement,
    Verdict,
)
from compilegate.report import formats

_ACTIONS: Mapping[str, str] = {
    Code.QUALITY_UNDECIDED: "More seeds alone would not decide this: judge on more validation "
    "examples, or declare a wider margin.",
    Code.QUALITY_SINGLE_SEED: "Declare two or more `seeds`: one seed shows nothing about chance.",
    "quality": "Change `batch_size` or `learning_rate`, the most frequent causes of harm.",
    "seeds": "Lower `learning_rate`, so that training is more stable, or declare more `seeds`.",
    "groups": "Have the program write the declared `groups` beside its examples.",
    "speed": "Benchmark longer, until the speed-up is certain: raise `epochs` in [recipe] (or your "
    "own program's setting), or add seeds.",
    Code.SPEED_BELOW_MINIMUM: "Try a larger `batch_size` or another backend to make it faster.",
    Code.SPEED_NOT_REPAID: "Keep the compile cache on, train longer, or, if the real "
    "training is longer, set `repaid_within_runs` to how many times as long it is.",
    Code.MEMORY_INCREASED: "Lower `batch_size`, or raise `max_memory_increase`.",
    Code.MEMORY_NOT_COMPARED: "Let all arms measure the same memory, or remove "
    "`max_memory_increase`.",
    Code.SPEED_DISAGREES: "Find out what the training does besides its steps (loader, evaluation, "
    "other shapes), and run again on a quieter machine.",
    Code.COMPILER_RECOMPILED: "Keep shapes and settings the same in every step, or raise "
    "`max_recompilations`.",
    Code.RECIPE_DIFFERS: "Declare for each arm the `precision` that the script trains in, or have "
    "it train in the declared one (`job.autocast()`).",
    Code.ARM_FAILED: "Read the log of the failed job, and fix the arm.",
    Code.EVIDENCE_LOST: "Run it again: only the jobs that were lost train again.",
    Code.METRIC_BELOW_FLOOR: "Train longer or tune the recipe: the models are below the floor.",
    Code.METRIC_AT_CONSTANT: "Train longer or tune the recipe: the models are no better than a "
    "constant prediction.",
    Code.PARITY_CANNOT_TELL: "Raise `steps` in [gate.parity], so that the probe compares more.",
    Code.SPEED_BEYOND_BELIEF: "Synchronize the device before reading the clock at the end of a "
    "step.",
    Code.STEPS_LOSS_NOT_FINITE: "Lower the `learning_rate`, clip gradients, or use a wider "
    "`precision`.",
    Code.STEPS_LOSS_CONSTANT: "Check that the optimizer's steps reach the model.",
    Code.CONFOUND_EXAMPLES_SEEN: "Let all arms train on the same number of examples.",
    Code.DATA_DIFFERS: "Train all arms on the same data.",
    Code.MODEL_SEED_UNUSED: "Pass `seed` to everything in the program that draws random numbers.",
    "data": "Remove the validation rows from the training data.",
    "parity": "Try another torch version or backend: the compiled arithmetic differs from eager's.",
    "compiler": "The compiler did not run as declared: read the log of the training job.",
    "recipe": "It was not trained as the workload declares: fix the training program.",
    "confound": "Run all arms on the same kind of machine and image, or declare the difference.",
    "slice": "Add validation examples to that slice, or fix its column and value.",
    "baseline": "Fix the baseline first: candidates are compared with it.",
    "registered": "Look for what changed since: data, code, settings. To accept the lower value, "
    "raise `drop`; to start over, delete registered/evidence/ of the workload.",
    "metric": "Fix what the training program reports, or the metric's function.",
}
"""Actions by a reason's code, or by the part of it before the dot."""
_EVIDENCE = "The evidence cannot be trusted: read the logs of the training jobs, then run again."
_SETTLED_BY_MORE = (Code.QUALITY_UNDECIDED, Code.SPEED_UNDECIDED)
"""What more seeds or examples decide, where the verdict says how many."""
_KEYS_OF_METRICS = {Code.METRIC_BELOW_FLOOR: "floor", Code.REGISTERED_WORSE: "drop"}
_MANY_SEEDS, _MANY_TIMES = 20, 10.0
"""Numbers of seeds, and of times the examples, beyond most people's reach."""
_NEARLY = 2.0
"""How far beyond a parity limit an error may be for another limit to be a remedy."""


def remedies(verdict: Verdict, candidate: CandidateVerdict) -> list[str]:
    """What can be done about a candidate: the most helpful first, and last how to do without it."""
    reasons = deciding(candidate)
    # Wrong arithmetic is why losses explode and metrics fall.
    reasons = [it for it in reasons if it.code is Code.PARITY_DIFFERS] or reasons
    more = [f"To decide, {way}." for way in _ways(verdict, candidate.arm)]
    if more:
        settled = [each for each in reasons if each.code in _SETTLED_BY_MORE]
        more[0] = " ".join([more[0], *(_rule(candidate, each) for each in settled[:1])]).rstrip()
        reasons = [each for each in reasons if each not in settled]
    found = dict.fromkeys(_remedy(candidate, each) for each in reasons)
    return [*more, *found, _do_without(verdict, candidate)]


def deciding(candidate: CandidateVerdict) -> list[Reason]:
    """The reasons that made it what it is, but for those that follow from another one."""
    reasons = [each for each in candidate.reasons if each.outcome is candidate.outcome]
    if any(each.code is Code.PARITY_DIFFERS for each in reasons):
        # A job ends when its arithmetic is wrong.
        return [each for each in reasons if each.code is not Code.ARM_FAILED]
    return reasons


def baseline_remedies(baseline: BaselineVerdict) -> list[str]:
    """What can be done about a baseline that may not be released."""
    return list(dict.fromkeys(_remedy(None, reason) for reason in baseline.reasons))


def figures_of(verdict: Verdict, arm: str) -> CandidateCost | None:
    """What a candidate costs and saves; None where that is not known."""
    figures = () if verdict.cost is None else verdict.cost.candidates
    return next((each for each in figures if each.arm == arm), None)


def _ways(verdict: Verdict, arm: str) -> list[str]:
    """What would decide an undecided candidate, with its cost: the cheapest first, but what is out
    of reach last."""
    figures, ways = figures_of(verdict, arm), []
    if figures is not None and (more := figures.more_seeds) is not None:
        jobs = counted(2 * more.seeds, "job")
        cost = f"{jobs}, {formats.amount(more.amount)} of machine time"
        text = f"add about {counted(more.seeds, 'seed')} ({cost})"
        ways.append((more.seeds > _MANY_SEEDS, more.amount.seconds, text))
    if figures is not None and (rows := figures.more_examples) is not None:
        cost = f"{formats.amount(rows.amount)} of machine time, besides the examples' own cost"
        times = f"{rows.growth:.1f} times as many"
        text = f"judge on about {rows.examples:,} validation examples, {times} ({cost})"
        ways.append((rows.growth > _MANY_TIMES, rows.amount.seconds, text))
    return [text for *_, text in sorted(ways)]


def _remedy(candidate: CandidateVerdict | None, reason: Reason) -> str:
    code, speed = reason.code, None if candidate is None else candidate.speed
    if speed is not None and code is Code.SPEED_BELOW_MINIMUM and speed.binding == "repayment":
        code = Code.SPEED_NOT_REPAID
    action = _ACTIONS.get(code) or _ACTIONS.get(code.subject, _EVIDENCE)
    if speed is not None and code is Code.SPEED_UNDECIDED and speed.busy_machine is not None:
        action = "Run it again on a quiet machine."
    return f"{action} {_rule(candidate, reason)}".rstrip()


def _rule(candidate: CandidateVerdict | None, reason: Reason) -> str:
    """The rule that binds; empty where the reason comes from no declared number."""
    if reason.code in _KEYS_OF_METRICS:
        return _of_value(reason)
    describe = _RULES.get(reason.code)
    return "" if describe is None or candidate is None else describe(candidate, reason)


def _binds(key: str, where: str, value: float, met: str, passing: float | None) -> str:
    """`passing` is the value of the key with which this rule would have passed."""
    end = "" if passing is None else f" `{key} = {passing:g}` would have passed."
    return f"`{key} = {value:g}` in {where} binds: {met}.{end}"


def _of_value(reason: Reason) -> str:
    """The rule about an arm's own value of a metric, in numbers of the reason."""
    key, numbers = _KEYS_OF_METRICS[reason.code], reason.numbers
    declared, value, before = (numbers.get(it) for it in (key, "value", "registered_value"))
    if not isinstance(declared, float | int) or not isinstance(value, float):
        return ""
    met, passing = f"the value is {value:.5g}", None
    if isinstance(before, float):
        met = f"{met}, the registered model's {before:.5g}"
        passing = formats.rounded(abs(value - before)) if value != before else None
    elif value > 0.0:
        passing = formats.rounded(value, up=value >= declared)
    return _binds(key, f"[gate.metrics.{numbers.get('metric')}]", declared, met, passing)


def _margin(candidate: CandidateVerdict, reason: Reason) -> str:
    about = (reason.numbers.get("metric"), reason.numbers.get("part"))
    metric = next((it for it in candidate.metrics if (it.metric, it.part) == about), None)
    if metric is None or metric.margin is None:
        return ""
    harm = -metric.delta.lower if metric.direction == "higher" else metric.delta.upper
    declared, size = metric.margin, 1.0
    if metric.relative_margin is not None:
        declared, size = metric.relative_margin, abs(metric.baseline)
    if harm <= metric.margin or size == 0.0:
        return ""
    where = f"[gate.metrics.{metric.metric}]"
    where = where if metric.part is None else f"[[gate.slices]] {metric.part}"
    met = f"the metric may be worse by up to {unit_of(metric.metric).amount(harm)}"
    return _binds("margin", where, declared, met, formats.rounded(harm / size))


def _speed(candidate: CandidateVerdict, reason: Reason) -> str:
    speed = candidate.speed
    if speed is None:
        return ""
    lower, needed, run = speed.speedup.lower, speed.required_speedup, speed.run
    met = f"the speed-up is at least {formats.times(lower)}"
    if speed.binding != "repayment" or run is None:
        floor = math.floor(lower * 100) / 100
        passing = floor if 1.0 <= floor < speed.min_speedup else None
        return _binds("min_speedup", "[gate]", speed.min_speedup, met, passing)
    limit = "no speed-up is enough" if needed is None else f"{formats.times(needed)} is needed"
    met = f"{limit} to repay compilation, {met}"
    runs = float(f"{run.repaid_within_steps / max(run.candidate_steps, 1):.3g}")
    return _binds("repaid_within_runs", "[gate]", runs, met, _runs_that_repay(speed, run))


def _runs_that_repay(speed: SpeedJudgement, run: RunJudgement) -> float | None:
    """Within how many runs compilation is repaid at the lower end of the speed-up's interval."""
    lower, required = speed.speedup.lower, speed.required_speedup
    if required is None or lower <= 1.0 or lower < speed.min_speedup or not run.candidate_steps:
        return None
    sample = run.candidate_batch_size / speed.baseline_samples_per_second
    compiling = max(run.candidate_compile_seconds - run.baseline_compile_seconds, 0.0)
    # What the required speed-up repays beyond compilation is lost between steps, in every run.
    lost = sample * (1.0 - 1.0 / required) - compiling / run.repaid_within_steps
    gained = sample * (1.0 - 1.0 / lower) - max(lost, 0.0)
    if gained <= 0.0 or compiling <= 0.0:
        return None
    return formats.rounded(compiling / gained / run.candidate_steps)


def _memory(candidate: CandidateVerdict, reason: Reason) -> str:
    memory = candidate.memory
    if memory is None or memory.increase is None or memory.max_increase is None:
        return ""
    met = f"the increase is {memory.increase:.3g} of the baseline's memory"
    passing = formats.rounded(memory.increase)
    return _binds("max_memory_increase", "[gate]", memory.max_increase, met, passing)


def _parity(candidate: CandidateVerdict, reason: Reason) -> str:
    parity = candidate.parity
    if parity is None or parity.worst is None or parity.limit is None:
        return ""
    ratio, limit, passing = parity.worst.ratio, parity.limit, None
    if ratio is not None and limit < ratio <= _NEARLY * limit:
        passing = formats.rounded(ratio)
    met = f"the largest error is {formats.error_ratio(ratio)} eager's rounding"
    script = f" {parity.repro} reproduces it." if parity.repro else ""
    return _binds(f"{parity.precision}_limit", "[gate.parity]", limit, met, passing) + script


def _recompiled(candidate: CandidateVerdict, reason: Reason) -> str:
    counts = (
        it.numbers.get("recompilations") for it in candidate.reasons if it.code is reason.code
    )
    most = max((it for it in counts if isinstance(it, int)), default=None)
    allowed = reason.numbers.get("allowed")
    if most is None or not isinstance(allowed, int):
        return ""
    met = f"a job recompiled {counted(most, 'time')}"
    return _binds("max_recompilations", "[gate]", allowed, met, most)


_RULES: Mapping[Code, Callable[[CandidateVerdict, Reason], str]] = {
    Code.QUALITY_UNDECIDED: _margin,
    Code.QUALITY_WORSE: _margin,
    Code.SPEED_UNDECIDED: _speed,
    Code.SPEED_BELOW_MINIMUM: _speed,
    Code.SPEED_NOT_REPAID: _speed,
    Code.MEMORY_INCREASED: _memory,
    Code.PARITY_DIFFERS: _parity,
    Code.COMPILER_RECOMPILED: _recompiled,
}


def _do_without(verdict: Verdict, candidate: CandidateVerdict) -> str:
    if len(verdict.candidates) > 1:
        return f"Or turn it off: remove [arms.{candidate.arm}] from the workload's file."
    released = verdict.decision.arm == verdict.baseline.arm
    what = "the baseline's model" if released else "nothing"
    return f"Or stop comparing: set `enabled = false` in [schedule]. Until then {what} is released."
