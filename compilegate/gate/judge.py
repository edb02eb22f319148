"""Composes the gate: all evidence of one execution in, the verdict out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from compilegate.evidence import EvidenceRecord, Replicate
from compilegate.gate.cost.cost import cost_of
from compilegate.gate.decision import decide
from compilegate.gate.integrity.confounds import find_confounds, undeclared
from compilegate.gate.integrity.examination import Examined, Records, examine
from compilegate.gate.parity.parity import judge_parity
from compilegate.gate.quality.effects import find_controls, split_effect
from compilegate.gate.quality.metrics import MetricUndefinedError, MetricValues
from compilegate.gate.quality.quality import ArmQuality, Replicates, compare_arms, metric_by_seed
from compilegate.gate.reasons import (
    Code,
    Note,
    Outcome,
    Reason,
    failure,
    gravest_first,
    split_findings,
    worst,
)
from compilegate.gate.settings import Experiment, GateSettings
from compilegate.gate.speed.arm_speed import ArmSpeed, measure_arm
from compilegate.gate.speed.speed import judge_speed
from compilegate.gate.statistics.multiplicity import holm_confidences
from compilegate.gate.statistics.noninferiority import conclude, noise_floor, outcome_of
from compilegate.gate.statistics.resolution import below_resolution
from compilegate.gate.verdict import (
    BaselineVerdict,
    CandidateVerdict,
    Confound,
    EffectSplit,
    MetricJudgement,
    NoiseFloor,
    ParityJudgement,
    SpeedJudgement,
    Verdict,
)


@dataclass(frozen=True)
class _Measured:
    """A comparable candidate, before a confidence is chosen."""

    quality: ArmQuality
    baseline_speed: ArmSpeed | None
    speed: ArmSpeed | None
    refusals: Sequence[Reason]
    """What fails it at any confidence: undeclared confounds, other arithmetic than eager's."""
    control: str | None


def judge(
    experiment: Experiment,
    records: Records,
    jobs: Mapping[Replicate, str] | None = None,
    values: MetricValues | None = None,
) -> Verdict:
    """The verdict on one execution.

    `records` holds, for each (arm, seed), the evidence or the error that reading it met; one that
    is not there is missing evidence. `jobs` names the training job that this execution ran, or took
    from the step cache, for each (arm, seed): evidence of another job fails. None skips that check.
    `values` may be shared with `observe`, so that metrics are computed once.
    """
    values = MetricValues() if values is None else values
    examined = examine(experiment, records, jobs, values)
    comparable = [
        arm
        for arm in experiment.candidates
        if not examined.problems_of(arm) and not examined.problems_of(experiment.baseline)
    ]
    measured = _measure(experiment, examined, comparable, values)
    confidences = holm_confidences(
        experiment.candidates,
        experiment.settings.confidence,
        lambda arm, confidence: (
            arm in measured and _passes(measured[arm], experiment.settings, confidence)
        ),
    )
    baseline = _judge_baseline(experiment, examined, values)
    candidates = tuple(
        _judge_candidate(arm, experiment, examined, measured, confidences)
        for arm in experiment.candidates
    )
    return Verdict(
        workload=experiment.workload,
        seeds=tuple(experiment.seeds),
        confidence=experiment.settings.confidence,
        decision=decide(baseline, candidates, first_seed=experiment.seeds[0]),
        baseline=baseline,
        candidates=candidates,
        cost=cost_of(experiment, examined, candidates),
    )


def _measure(
    experiment: Experiment, examined: Examined, comparable: Sequence[str], values: MetricValues
) -> dict[str, _Measured]:
    """Everything about the comparable candidates that does not depend on a confidence."""
    if not comparable:
        return {}
    controls = find_controls(experiment, comparable)
    quality = compare_arms(
        experiment.settings,
        replicates_of(examined.of_arm(experiment.baseline)),
        {arm: replicates_of(examined.of_arm(arm)) for arm in comparable},
        controls,
        values,
    )
    speeds = {
        arm: measure_arm(experiment.arms[arm].global_batch_size, examined.of_arm(arm))
        for arm in (experiment.baseline, *comparable)
    }
    return {
        arm: _Measured(
            quality[arm],
            speeds[experiment.baseline],
            speeds[arm],
            _refusals(arm, experiment, examined),
            controls.get(arm),
        )
        for arm in comparable
    }


def _refusals(arm: str, experiment: Experiment, examined: Examined) -> list[Reason]:
    _, about_parity = _judge_parity(arm, experiment, examined)
    found = [*undeclared(_confounds(arm, experiment, examined))]
    if isinstance(about_parity, Reason) and about_parity.outcome is Outcome.FAIL:
        found.append(about_parity)
    return found


def _passes(measured: _Measured, settings: GateSettings, confidence: float) -> bool:
    """Whether all that decides passes at this confidence: needs no sentences."""
    decided, _ = split_findings(measured.quality.findings)
    outcomes = [outcome_of(comparison, confidence) for comparison in measured.quality.comparisons]
    _, about_speed = _judge_speed(measured, settings, confidence)
    return (
        not decided
        and not measured.refusals
        and all(outcome in (None, Outcome.PASS) for outcome in outcomes)
        and about_speed.outcome is Outcome.PASS
    )


def _judge_baseline(
    experiment: Experiment, examined: Examined, values: MetricValues
) -> BaselineVerdict:
    reasons = examined.problems_of(experiment.baseline)
    floors: list[NoiseFloor] = []
    if not reasons and len(experiment.seeds) > 1:
        replicates = replicates_of(examined.of_arm(experiment.baseline))
        for metric, guard in experiment.settings.metrics.items():
            # A watched metric may be undefined; each candidate's notes say so.
            with suppress(MetricUndefinedError):
                floors.append(
                    noise_floor(metric, metric_by_seed(metric, guard, replicates, values))
                )
    return BaselineVerdict(experiment.baseline, not reasons, reasons, tuple(floors))


def _judge_candidate(
    arm: str,
    experiment: Experiment,
    examined: Examined,
    measured: Mapping[str, _Measured],
    confidences: Mapping[str, float],
) -> CandidateVerdict:
    reasons = list(examined.problems_of(arm))
    if examined.problems_of(experiment.baseline):
        sentence = "The baseline's evidence is not sound: there is nothing to compare with."
        reasons.append(failure(Code.BASELINE_UNSOUND, sentence))
    confounds = _confounds(arm, experiment, examined)
    reasons += undeclared(confounds)
    parity, about_parity = _judge_parity(arm, experiment, examined)
    decided, notes = split_findings([] if about_parity is None else [about_parity])
    reasons += decided
    metrics: list[MetricJudgement] = []
    speed: SpeedJudgement | None = None
    effects: tuple[EffectSplit, ...] = ()
    if arm in measured:
        metrics, about_quality = judge_quality(measured[arm].quality, confidences[arm])
        speed, about_speed = _judge_speed(measured[arm], experiment.settings, confidences[arm])
        decided, seen = split_findings([*about_quality, *measured[arm].quality.findings])
        reasons += [*decided, about_speed]
        effects, about_effects = _split_effects(arm, experiment, measured, confidences[arm])
        notes += [*about_effects, *seen, *_about_holm(experiment, confidences[arm])]
    outcome = worst(reason.outcome for reason in reasons)
    return CandidateVerdict(
        arm=arm,
        outcome=outcome,
        reasons=gravest_first(reasons),
        metrics=tuple(metrics),
        speed=speed,
        confounds=confounds,
        confidence=confidences[arm],
        parity=parity,
        effects=effects,
        notes=tuple(notes),
    )


def _judge_parity(
    arm: str, experiment: Experiment, examined: Examined
) -> tuple[ParityJudgement | None, Reason | Note | None]:
    if not experiment.arms[arm].compiled:
        return None, None
    records = {
        seed: examined.records[arm, seed]
        for seed in experiment.seeds
        if examined.was_trained(arm, seed)
    }
    return judge_parity(records, experiment.settings.parity)


def _confounds(arm: str, experiment: Experiment, examined: Examined) -> tuple[Confound, ...]:
    in_both = [
        seed
        for seed in experiment.seeds
        if examined.was_trained(arm, seed) and examined.was_trained(experiment.baseline, seed)
    ]
    return find_confounds(
        [examined.records[experiment.baseline, seed].evidence for seed in in_both],
        [examined.records[arm, seed].evidence for seed in in_both],
        experiment.arms[experiment.baseline],
        experiment.arms[arm],
    )


def judge_quality(
    quality: ArmQuality, confidence: float
) -> tuple[list[MetricJudgement], list[Reason | Note]]:
    """Each metric's judgement at this confidence, and what is to be said of it."""
    judged = [conclude(comparison, confidence) for comparison in quality.comparisons]
    findings = [finding for _, finding in judged]
    unresolved = (below_resolution(item, confidence) for item in quality.comparisons)
    findings += [note for note in unresolved if note is not None]
    return [judgement for judgement, _ in judged], findings


def _judge_speed(
    measured: _Measured, settings: GateSettings, confidence: float
) -> tuple[SpeedJudgement | None, Reason]:
    return judge_speed(
        measured.baseline_speed,
        measured.speed,
        settings,
        confidence,
    )


def _split_effects(
    arm: str, experiment: Experiment, measured: Mapping[str, _Measured], confidence: float
) -> tuple[tuple[EffectSplit, ...], list[Note]]:
    control = measured[arm].control
    if control is None:
        return (), []
    of_control = {
        comparison.metric: conclude(comparison, confidence)[0]
        for comparison in measured[control].quality.comparisons
        if comparison.part is None
    }
    declarations = (experiment.arms[control], experiment.arms[arm])
    split_up = [
        split_effect(contrast, control, of_control[contrast.metric], declarations, confidence)
        for contrast in measured[arm].quality.contrasts
    ]
    return tuple(effect for effect, _ in split_up), [note for _, note in split_up]


def _about_holm(experiment: Experiment, confidence: float) -> list[Note]:
    count = len(experiment.candidates)
    if count < 2:
        return []
    sentence = (
        f"Any of {count} candidates may win, so bounds are at {confidence * 100:.4g}% instead of "
        f"{experiment.settings.confidence * 100:.4g}% (Holm), which keeps the chance that any "
        "wrong one passes at the declared level; that all metrics must pass needs no such "
        "correction."
    )
    return [Note(Code.CONFIDENCE_HOLM, sentence, {"confidence": confidence, "candidates": count})]


def replicates_of(records: Sequence[EvidenceRecord]) -> Replicates:
    """What sound records measured, row by row the same examples in all of them."""
    return Replicates(
        examples=[record.examples for record in records if record.examples is not None],
        reported=[record.evidence.metrics for record in records],
    )
