"""What a person can do about a candidate that was refused or is inconclusive. Pure.

The gate says what it found; this says what follows from it, for each kind of finding once.
"""

from __future__ import annotations

from compilegate.gate.findings import Code, Outcome
from compilegate.gate.verdict import BaselineVerdict, CandidateVerdict, Verdict
from compilegate.report import cost

_BENCHMARK_LONGER = (
    "Benchmark longer: raise `epochs` in [recipe], or what your own program has for it, or add "
    "seeds, until the speed-up is certain."
)
_MORE_EVIDENCE = (
    "More seeds alone would not settle this: judge on more validation examples, or declare a "
    "margin that they can show."
)
_RETUNE = "Give it another `batch_size` or `learning_rate`, the most frequent causes of harm."
_BY_CODE = {
    Code.QUALITY_UNDECIDED: _MORE_EVIDENCE,
    Code.QUALITY_SINGLE_SEED: "Declare two or more `seeds`: a single one cannot show chance.",
    Code.QUALITY_WORSE: _RETUNE,
    Code.SPEED_UNDECIDED: _BENCHMARK_LONGER,
    Code.SPEED_UNMEASURED: _BENCHMARK_LONGER,
    Code.SPEED_BELOW_MINIMUM: "Give it a larger `batch_size`, or accept less in `min_speedup`.",
    Code.SPEED_NOT_REPAID: (
        "Keep the compile cache on, train longer, or set `repaid_within_runs` to how many times as "
        "long the real training is."
    ),
    Code.MEMORY_INCREASED: (
        "Give it a smaller `batch_size`, or allow more in `max_memory_increase`."
    ),
    Code.MEMORY_NOT_COMPARED: (
        "Let all arms measure the same memory, or remove `max_memory_increase`."
    ),
    Code.SPEED_DISAGREES: (
        "Find out what the training does besides its steps (loader, evaluation, other shapes), "
        "and run again on a quieter machine."
    ),
    Code.COMPILER_RECOMPILED: (
        "Keep shapes and settings the same in every step, or allow it by `max_recompilations`."
    ),
    Code.RECIPE_DIFFERS: (
        "Declare for each arm the `precision` that the script trains in, or have it train in the "
        "declared one (`job.autocast()`)."
    ),
    Code.ARM_FAILED: "Read the log of the failed job, and fix the arm.",
    Code.EVIDENCE_LOST: "Run it again: the jobs that were lost train anew, and no others.",
}
_BY_SUBJECT = {
    "parity": "Its compiled arithmetic differs from eager's: try another torch version or backend.",
    "compiler": "Its compiler did not run as declared: read the log of its training job.",
    "recipe": "It was not trained as the workload declares: fix the training program.",
    "confound": "Run all arms on the same kind of machine and image, or declare the difference.",
    "slice": "Give that slice more validation examples, or fix its column and value.",
    "baseline": "Fix the baseline first: nothing can be compared with it.",
    "registered": "Look for what changed since: data, code, settings. To accept the lower value, "
    "raise `drop`; to start anew, delete registered/evidence/ of the workload.",
    "metric": "Fix what the training program reports, or the metric's function.",
}
"""By the part of a reason's code before the dot, if the code itself has no entry."""
_EVIDENCE = "Its evidence cannot be trusted: read the logs of its training jobs, then run again."


def remedies(verdict: Verdict, candidate: CandidateVerdict) -> list[str]:
    """What can be done: a sentence each, the likeliest first, and last how to do without it."""
    more_evidence = _what_settles_it(verdict, candidate.arm)
    found = [
        remedy
        for remedy in (
            _remedy(reason.code)
            for reason in candidate.reasons
            if reason.outcome is candidate.outcome
        )
        # What more evidence would settle has its own line, with its cost.
        if not (more_evidence and remedy == _MORE_EVIDENCE)
    ]
    return [*more_evidence, *dict.fromkeys(found), _do_without(verdict, candidate)]


def baseline_remedy(baseline: BaselineVerdict) -> str:
    """What can be done about a baseline that may not be released."""
    if baseline.sound:
        return _BY_SUBJECT["registered"]
    return "Read the logs of the baseline's training jobs, correct it, and run again."


def _remedy(code: Code) -> str:
    return _BY_CODE.get(code) or _BY_SUBJECT.get(code.subject, _EVIDENCE)


def _what_settles_it(verdict: Verdict, arm: str) -> list[str]:
    figures = () if verdict.cost is None else verdict.cost.candidates
    ways = [cost.what_settles_it(item) for item in figures if item.arm == arm]
    return [f"To settle it, add {way}." for way in ways if way]


def _do_without(verdict: Verdict, candidate: CandidateVerdict) -> str:
    if len(verdict.candidates) > 1:
        return f"Or turn it off: remove [arms.{candidate.arm}] from the workload's file."
    released = (
        "Meanwhile the baseline's model is released"
        if verdict.decision.arm == verdict.baseline.arm
        else "Nothing is released meanwhile"
    )
    undecided = "asking" if candidate.outcome is Outcome.INCONCLUSIVE else "trying it"
    return f"Or stop {undecided}: `enabled = false` in [schedule]. {released}."
