"""Composes the gate: all evidence of one execution in, the verdict out. Pure.

Whatever the workload is, the way is the same: examine the evidence, find out once all that does not
depend on a confidence, choose the confidence of each candidate, and judge at it. What the evidence
cannot show is said in a note or a reason of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from compilegate.evidence import Replicate, outputs_digest
from compilegate.gate.cost import cost_of
from compilegate.gate.decision import decide, decide_between_models
from compilegate.gate.integrity.confounds import find_confounds, undeclared
from compilegate.gate.integrity.examination import Examined, Records, examine
from compilegate.gate.judgements import (
    Confound,
    EffectSplit,
    MetricJudgement,
    NoiseFloor,
    ParityJudgement,
    SpeedJudgement,
)
from compilegate.gate.parity import judge_parity
from compilegate.gate.quality.compared_arms import (
    ArmQuality,
    Replicates,
    compare_arms,
    metric_by_seed,
)
from compilegate.gate.quality.effects import find_compiler_only, split_effect
from compilegate.gate.quality.metrics import MetricUndefinedError, MetricValues
from compilegate.gate.quality.noninferiority import conclude, noise_floor, outcome_of
from compilegate.gate.quality.resolution import below_resolution
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
from compilegate.gate.settings import Experiment
from compilegate.gate.speed.arm_speed import measure_arm
from compilegate.gate.speed.judgement import judge_speed
from compilegate.gate.statistics.multiplicity import holm_confidences
from compilegate.gate.verdict import BaselineVerdict, CandidateVerdict, Verdict

_NOTHING_PROVEN = Note(
    Code.PRINTED_ONLY,
    "The jobs left only metrics that they printed: nothing proves that the compiler ran, that both "
    "arms saw the same data, or that compiling was repaid.",
)


@dataclass(frozen=True)
class _Candidate:
    """All that is known of a candidate before a confidence is chosen."""

    arm: str
    reasons: Sequence[Reason]
    """What decides at any confidence."""
    notes: Sequence[Note]
    parity: ParityJudgement | None
    confounds: tuple[Confound, ...]
    quality: ArmQuality | None
    """None where there is nothing to compare."""
    compiler_only: str | None
    """The candidate with the same compiler that differs from the baseline by it alone."""


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
    return _Case(experiment, records, jobs, MetricValues() if values is None else values).verdict()


class _Case:
    """One execution's evidence, examined and measured."""

    def __init__(
        self,
        experiment: Experiment,
        records: Records,
        jobs: Mapping[Replicate, str] | None,
        values: MetricValues,
    ) -> None:
        self.experiment = experiment
        self.values = values
        self.examined = examine(experiment, records, jobs, values)
        self.speeds = {
            arm: measure_arm(declared.global_batch_size, self.examined.sound(arm))
            for arm, declared in experiment.arms.items()
        }
        self.candidates = self._candidates()

    def verdict(self) -> Verdict:
        experiment = self.experiment
        confidences = holm_confidences(
            experiment.candidates, experiment.settings.confidence, self._passes
        )
        baseline = self._baseline()
        candidates = tuple(self._judge(arm, confidences[arm]) for arm in experiment.candidates)
        seed = experiment.seeds[0]
        return Verdict(
            workload=experiment.workload,
            seeds=tuple(experiment.seeds),
            confidence=experiment.settings.confidence,
            decision=decide_between_models(candidates[0], baseline, seed)
            if experiment.champion
            else decide(baseline, candidates, first_seed=seed),
            baseline=baseline,
            candidates=candidates,
            cost=cost_of(experiment, self.examined, self.speeds, candidates),
        )

    def _candidates(self) -> dict[str, _Candidate]:
        experiment, examined = self.experiment, self.examined
        unmatched = {arm: self._nothing_to_compare(arm) for arm in experiment.candidates}
        comparable = [arm for arm, reasons in unmatched.items() if not reasons]
        compiler_only = find_compiler_only(experiment, comparable)
        quality = (
            compare_arms(
                experiment.settings,
                _replicates(examined, experiment.baseline),
                {arm: _replicates(examined, arm) for arm in comparable},
                compiler_only,
                self.values,
            )
            if comparable
            else {}
        )
        found = {}
        for arm in experiment.candidates:
            parity, about_parity = self._parity(arm)
            confounds = self._confounds(arm)
            about = [] if arm not in quality else quality[arm].findings
            reasons, notes = split_findings([*about_parity, *about])
            found[arm] = _Candidate(
                arm=arm,
                reasons=[*unmatched[arm], *undeclared(confounds), *reasons],
                notes=[*notes, *self._not_proven(arm in quality)],
                parity=parity,
                confounds=confounds,
                quality=quality.get(arm),
                compiler_only=compiler_only.get(arm),
            )
        return found

    def _nothing_to_compare(self, arm: str) -> tuple[Reason, ...]:
        """Why the arm is not held against the baseline; empty where it is."""
        examined = self.examined
        found = examined.problems_of(arm)
        if examined.problems_of(self.experiment.baseline):
            return (*found, _unsound_baseline(self.experiment))
        if found or not self.experiment.champion:
            return found
        if examined.no_model_yet:
            sentence = "No model was registered before: there is nothing to compare with."
            return (Reason(Code.CHAMPION_NONE, Outcome.PASS, sentence),)
        before, after = (
            _replicates(examined, name).examples[0] for name in (self.experiment.baseline, arm)
        )
        if outputs_digest(before) == outputs_digest(after):
            sentence = "The new model says of every example what the registered one says."
            return (Reason(Code.CHAMPION_SAME, Outcome.PASS, sentence),)
        return ()

    def _not_proven(self, compared: bool) -> list[Note]:
        return [_NOTHING_PROVEN] if compared and self.experiment.evidence == "printed" else []

    def _parity(self, arm: str) -> tuple[ParityJudgement | None, list[Reason | Note]]:
        declared = self.experiment.arms.get(arm)
        if declared is None or not declared.compiled:
            return None, []
        records = {
            seed: self.examined.records[arm, seed]
            for seed in self.experiment.seeds
            if self.examined.was_trained(arm, seed)
        }
        judgement, about = judge_parity(records, self.experiment.settings.parity)
        return judgement, [] if about is None else [about]

    def _confounds(self, arm: str) -> tuple[Confound, ...]:
        arms, examined = self.experiment.arms, self.examined
        baseline = self.experiment.baseline
        if arm not in arms:
            return ()
        in_both = [
            seed
            for seed in self.experiment.seeds
            if examined.was_trained(arm, seed) and examined.was_trained(baseline, seed)
        ]
        return find_confounds(
            [examined.records[baseline, seed].evidence for seed in in_both],
            [examined.records[arm, seed].evidence for seed in in_both],
            arms[baseline],
            arms[arm],
        )

    def _passes(self, arm: str, confidence: float) -> bool:
        """Whether all that decides passes at this confidence: needs no sentences."""
        candidate = self.candidates[arm]
        if candidate.quality is None:
            return False
        outcomes = [outcome_of(it, confidence) for it in candidate.quality.comparisons]
        _, about_speed = self._speed(arm, confidence)
        outcomes += [reason.outcome for reason in (*candidate.reasons, *about_speed)]
        return all(outcome in (None, Outcome.PASS) for outcome in outcomes)

    def _baseline(self) -> BaselineVerdict:
        experiment, examined = self.experiment, self.examined
        reasons = examined.problems_of(experiment.baseline)
        floors: list[NoiseFloor] = []
        if not reasons and not experiment.champion and len(experiment.seeds) > 1:
            replicates = _replicates(examined, experiment.baseline)
            for metric, guard in experiment.settings.metrics.items():
                # A watched metric may be undefined; each candidate's notes say so.
                with suppress(MetricUndefinedError):
                    values = metric_by_seed(metric, guard, replicates, self.values)
                    floors.append(noise_floor(metric, values))
        return BaselineVerdict(
            arm=experiment.baseline,
            sound=not reasons,
            reasons=reasons,
            noise_floor=tuple(floors),
            registered=experiment.champion,
            exists=not examined.no_model_yet,
        )

    def _judge(self, arm: str, confidence: float) -> CandidateVerdict:
        candidate = self.candidates[arm]
        reasons, notes = list(candidate.reasons), list(candidate.notes)
        metrics: list[MetricJudgement] = []
        speed: SpeedJudgement | None = None
        effects: tuple[EffectSplit, ...] = ()
        if candidate.quality is not None:
            metrics, about_quality = judge_quality(candidate.quality, confidence)
            speed, about_speed = self._speed(arm, confidence)
            decided, seen = split_findings(about_quality)
            reasons += [*decided, *about_speed]
            effects, about_effects = self._effects(candidate, confidence)
            notes += [*about_effects, *seen, *_about_holm(self.experiment, confidence)]
        return CandidateVerdict(
            arm=arm,
            outcome=worst(reason.outcome for reason in reasons),
            reasons=gravest_first(reasons),
            metrics=tuple(metrics),
            speed=speed,
            confounds=candidate.confounds,
            confidence=confidence,
            parity=candidate.parity,
            effects=effects,
            notes=tuple(notes),
        )

    def _speed(self, arm: str, confidence: float) -> tuple[SpeedJudgement | None, list[Reason]]:
        """Nothing is asked of the speed where nothing was compiled."""
        if self.experiment.champion:
            return None, []
        speed, reason = judge_speed(
            self.speeds[self.experiment.baseline],
            self.speeds[arm],
            self.experiment.settings,
            confidence,
        )
        return speed, [reason]

    def _effects(
        self, candidate: _Candidate, confidence: float
    ) -> tuple[tuple[EffectSplit, ...], list[Note]]:
        if candidate.compiler_only is None or candidate.quality is None:
            return (), []
        reference = self.candidates[candidate.compiler_only].quality
        by_compiler = {
            comparison.metric: conclude(comparison, confidence)[0]
            for comparison in (reference.comparisons if reference is not None else [])
            if comparison.part is None
        }
        arms = self.experiment.arms
        split_up = [
            split_effect(
                contrast,
                candidate.compiler_only,
                by_compiler[contrast.metric],
                (arms[candidate.compiler_only], arms[candidate.arm]),
                confidence,
            )
            for contrast in candidate.quality.contrasts
        ]
        return tuple(effect for effect, _ in split_up), [note for _, note in split_up]


def judge_quality(
    quality: ArmQuality, confidence: float
) -> tuple[list[MetricJudgement], list[Reason | Note]]:
    """Each metric's judgement at this confidence, and what the verdict says about it."""
    judged = [conclude(comparison, confidence) for comparison in quality.comparisons]
    findings = [finding for _, finding in judged]
    unresolved = (below_resolution(item, confidence) for item in quality.comparisons)
    findings += [note for note in unresolved if note is not None]
    return [judgement for judgement, _ in judged], findings


def _unsound_baseline(experiment: Experiment) -> Reason:
    if experiment.champion:
        sentence = "The registered model cannot be compared with: its evidence is not sound."
        return failure(Code.CHAMPION_UNUSABLE, sentence)
    sentence = "The baseline's evidence is not sound: there is nothing to compare with."
    return failure(Code.BASELINE_UNSOUND, sentence)


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


def _replicates(examined: Examined, arm: str) -> Replicates:
    """What sound records measured, row by row the same examples in all of them. A champion is one
    model, which every seed of the new one is held against."""
    records = examined.of_arm(arm)
    champion = examined.experiment.champion
    if champion and arm == examined.experiment.baseline:
        records = records * len(examined.experiment.seeds)
    return Replicates(
        examples=[record.examples for record in records if record.examples is not None],
        reported=[record.evidence.metrics for record in records],
        called="the registered model" if champion else "the baseline",
    )
