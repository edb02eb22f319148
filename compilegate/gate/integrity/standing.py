"""Standing: what of a replicate can still be judged when something is wrong with its evidence.

A guard that fails (a recompilation, a missing proof, another learning rate) fails the candidate. It
takes nothing away from what else is known: scores are still those of the model that was trained,
and step times are still what its steps took. So quality, parity and speed are judged all the same,
and a broken gradient is not hidden behind "1 recompilations". What contradicts itself, or cannot be
read, is known to nobody and is not judged.

The tables say which problems leave which columns standing; one that they do not name leaves none.
"""

from __future__ import annotations

from collections.abc import Iterable

from compilegate.gate.reasons import Code, Reason
from compilegate.gate.settings import GateSettings
from compilegate.job.names import SPEED_METRIC

_GUARDS = frozenset(
    {
        Code.COMPILER_CACHE_CONTRADICTS,
        Code.COMPILER_DIFFERS,
        Code.COMPILER_DID_NOT_RUN,
        Code.COMPILER_FEW_CALLS,
        Code.COMPILER_IN_PIECES,
        Code.COMPILER_NO_PROOF,
        Code.COMPILER_RAN_IN_EAGER,
        Code.COMPILER_RECOMPILED,
        Code.DATA_DIFFERS,
        Code.DATA_OTHER_TRAINED_ON,
        Code.DATA_TRAINED_ON,
        Code.DIGEST_MISSING,
        Code.DIGEST_PLACEHOLDER,
        Code.EVIDENCE_NO_ENVIRONMENT,
        Code.EXAMPLES_LOSSES_EQUAL,
        Code.EXAMPLES_ONE_CLASS,
        Code.METRIC_BELOW_FLOOR,
        Code.METRIC_DISAGREES,
        Code.METRIC_TOO_GOOD,
        Code.MODEL_SEEDS_CLOSE,
        Code.RECIPE_LEARNING_RATE,
        Code.RECIPE_PADDING,
        Code.RECIPE_PRECISION,
        Code.STEPS_LOSS_FLAT,
        Code.STEPS_OTHER_END,
        Code.STEPS_OTHER_START,
        Code.STEPS_SEEDS_ALIKE,
        Code.STEPS_LOSS_NOT_FINITE,
        Code.STEPS_TIMES_OF_ANOTHER,
        Code.STEPS_TOTAL_UNACCOUNTED,
    }
)
"""They say how a job went, and nothing against what it measured."""
_LEAVE_SCORES = _GUARDS | {
    Code.EVIDENCE_IMPLAUSIBLE,
    Code.RECIPE_BATCH_SIZE,
    Code.RECIPE_WORLD_SIZE,
    Code.STEPS_COUNT,
    Code.STEPS_SECONDS_INVALID,
    Code.STEPS_SPEED_DIFFERS,
    Code.STEPS_TIME_UNACCOUNTED,
}
_LEAVE_TIMES = _GUARDS | {
    Code.STEPS_SPEED_DIFFERS,
    Code.MODEL_OUTPUTS_OF_ANOTHER,
    Code.MODEL_SEEDS_ALIKE,
    Code.METRIC_ABOVE_ONE,
    Code.METRIC_MISSING,
    Code.METRIC_UNDEFINED,
    Code.EXAMPLES_CLASSES_DIFFER,
    Code.EXAMPLES_IDS_DIFFER,
    Code.EXAMPLES_IDS_REPEAT,
    Code.EXAMPLES_IDS_UNREADABLE,
    Code.EXAMPLES_INPUTS_DIFFER,
    Code.EXAMPLES_LABELS_DIFFER,
    Code.EXAMPLES_LABEL_RANGE,
    Code.EXAMPLES_LOSSES_DISAGREE,
    Code.EXAMPLES_NOT_FINITE,
    Code.EXAMPLES_NOT_PROBABILITIES,
    Code.EXAMPLES_SLICES_DIFFER,
    Code.EXAMPLES_TARGETS_DIFFER,
    Code.EXAMPLES_TOO_FEW,
}
"""Samples per second need the batch size, and a number of steps that is beyond doubt."""
_TIMES = frozenset({"steps"})
_SCORES = frozenset({"examples", "outputs"})
_PROBES = frozenset({"parity", "paired", "trained_on"})
"""Digests by the columns that they are of: one that differs takes these away and no others."""
_ABOUT_A_METRIC = frozenset({Code.METRIC_ABOVE_ONE, Code.METRIC_MISSING, Code.METRIC_NOT_FINITE})


def scores_stand(problems: Iterable[Reason], settings: GateSettings) -> bool:
    """Whether the replicate's scores can be compared, whatever else is wrong with it."""
    return all(
        problem.code in _LEAVE_SCORES
        or _is_of_other_columns(problem, _TIMES | _PROBES)
        or _is_one_metric(problem)
        # What a job reports of its examples is only a check: the gate computes it from them.
        or (problem.code in _ABOUT_A_METRIC and not _is_read_as_reported(problem, settings))
        for problem in problems
    )


def times_stand(problems: Iterable[Reason]) -> bool:
    """Whether the replicate's step times, or the speed that it reported, can be compared."""
    return all(
        problem.code in _LEAVE_TIMES
        or _is_of_other_columns(problem, _SCORES | _PROBES)
        or _is_one_metric(problem)
        or (
            problem.code is Code.METRIC_NOT_FINITE and problem.numbers.get("metric") != SPEED_METRIC
        )
        for problem in problems
    )


def _is_one_metric(problem: Reason) -> bool:
    """Whether the evidence lacks what one metric needs: others, and the times, are there."""
    return problem.code is Code.EVIDENCE_LACKING and "metric" in problem.numbers


def _is_of_other_columns(problem: Reason, others: frozenset[str]) -> bool:
    return problem.code is Code.DIGEST_DIFFERS and problem.numbers.get("columns") in others


def _is_read_as_reported(problem: Reason, settings: GateSettings) -> bool:
    guard = settings.metrics.get(str(problem.numbers.get("metric")))
    return guard is not None and guard.reported
