"""What an execution showed of each candidate, as `compilegate.posture` records it."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Sequence
from statistics import NormalDist

from compilegate.gate.findings import Code, Outcome, Reason
from compilegate.gate.metrics import MetricUndefinedError, MetricValues
from compilegate.gate.records import Records
from compilegate.gate.settings import Experiment
from compilegate.gate.verdict import CandidateVerdict, MetricJudgement, SpeedJudgement, Verdict
from compilegate.job.contract import BASELINE_ARM
from compilegate.job.evidence import EvidenceRecord
from compilegate.posture.records import encoded
from compilegate.posture.state import Difference, Observed, Seen

SPEED = "speed"
_BY_CHANCE = {
    Code.QUALITY_WORSE,
    Code.QUALITY_RELEASED_WORSE,
    Code.SPEED_BELOW_MINIMUM,
    Code.SPEED_NOT_REPAID,
}
"""Quality and speed as measured, which chance moves."""
_LONGEST_REASON = 200


def alone(experiment: Experiment, arm: str) -> Experiment:
    """The experiment of one arm that trains alone, with the seed whose model is released."""
    return experiment.model_copy(
        update={
            "arms": {arm: experiment.arms[arm]},
            "baseline": arm,
            "seeds": experiment.seeds[:1],
            "left_out": [],
        }
    )


def posture_document(observed: Observed) -> str:
    """`posture.json`: one text for the function that keeps the record, since a step passes texts to
    a function, and the arm for people."""
    text = json.dumps(encoded(observed), separators=(",", ":"), allow_nan=False)
    return json.dumps({"arm": observed.registered, "observed": text}) + "\n"


def observed_together(verdict: Verdict) -> Observed:
    """What all arms together showed."""
    seen, lost = [], []
    for candidate in verdict.candidates:
        reason = _lost(candidate.reasons) if candidate.outcome is Outcome.INCONCLUSIVE else ""
        if reason:
            lost.append(f"{candidate.arm}: {reason}")
        else:
            seen.append(_seen(candidate, verdict.confidence))
    return Observed(
        seen=tuple(seen),
        registered=verdict.decision.arm,
        nothing_learned="" if verdict.baseline.sound else "the baseline's evidence is not valid",
        lost="; ".join(lost),
    )


def observed_alone(experiment: Experiment, verdict: Verdict, records: Records) -> Observed:
    """What one arm showed without the others; a baseline shows nothing of any candidate."""
    arm = verdict.baseline
    if arm.arm == BASELINE_ARM:
        return Observed(registered=verdict.decision.arm)
    if lost := _lost(arm.reasons):
        return Observed(lost=f"{arm.arm}: {lost}")
    metrics = experiment.settings.metrics
    seen = Seen(
        arm=arm.arm,
        outcome="fail" if arm.reasons else "pass",
        broken=not arm.sound,
        reason=_first_sentence(arm.reasons) or "its evidence is valid",
        values=_values(experiment, records) if arm.sound else {},
        turned=tuple(
            name for name in experiment.settings.guarded if metrics[name].direction == "lower"
        ),
    )
    return Observed(seen=(seen,), registered=verdict.decision.arm)


def _lost(reasons: Sequence[Reason]) -> str:
    """The gate's sentence about a job that the machine ended without a model; empty without one."""
    return _first_sentence([each for each in reasons if each.code is Code.EVIDENCE_LOST])


def _values(experiment: Experiment, records: Records) -> dict[str, float]:
    record = records[experiment.baseline, experiment.seeds[0]]
    if not isinstance(record, EvidenceRecord):
        return {}
    values, found = MetricValues(), {}
    for metric in experiment.settings.guarded:
        guard = experiment.settings.metrics[metric]
        try:
            found[metric] = guard.sign * values.of_record(metric, guard, record)
        except MetricUndefinedError:
            continue  # a finding of the verdict
    return found


def _seen(candidate: CandidateVerdict, confidence: float) -> Seen:
    guarded = [one for one in candidate.metrics if one.margin is not None and one.part is None]
    failed = {reason.code for reason in candidate.reasons if reason.outcome is Outcome.FAIL}
    differences = [_difference(one) for one in guarded]
    if candidate.speed is not None:
        differences.append(_speed(candidate.speed, confidence))
    return Seen(
        arm=candidate.arm,
        outcome=candidate.outcome.value,
        broken=bool(failed - _BY_CHANCE),
        reason=_first_sentence(candidate.reasons) or "no reason was given",
        speedup=None if candidate.speed is None else candidate.speed.speedup.lower,
        differences=tuple(differences) if guarded else (),
        values={one.metric: _better(one.direction, one.candidate) for one in guarded},
        turned=tuple(one.metric for one in guarded if one.direction == "lower"),
    )


def _first_sentence(reasons: Sequence[Reason]) -> str:
    """The gravest reason for a line of a history; the verdict has all of it."""
    if not reasons:
        return ""
    first = re.split(r"(?<=[a-z)])[.:] ", reasons[0].sentence, maxsplit=1)[0].rstrip(".")
    return textwrap.shorten(first, _LONGEST_REASON, placeholder=" ...")


def _better(direction: str, value: float) -> float:
    return value if direction == "higher" else -value


def _difference(judged: MetricJudgement) -> Difference:
    return Difference(
        metric=judged.metric,
        difference=_better(judged.direction, judged.delta.estimate),
        standard_error=math.hypot(judged.seed_standard_error or 0.0, judged.example_standard_error),
        margin=judged.margin or 0.0,
    )


def _speed(judged: SpeedJudgement, confidence: float) -> Difference:
    """The speed-up's logarithm above what is required: it has no margin of its own."""
    required = judged.required_speedup or judged.min_speedup
    width = math.log(judged.speedup.estimate) - math.log(max(judged.speedup.lower, 1e-9))
    return Difference(
        metric=SPEED,
        difference=math.log(judged.speedup.estimate / required),
        standard_error=width / NormalDist().inv_cdf(confidence),
        margin=0.0,
    )
