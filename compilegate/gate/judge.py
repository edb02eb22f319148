"""Composes the gate: all evidence of one execution in, the verdict out. Pure.

Whatever the workload is, the way is the same: examine the evidence, find out once all that does not
depend on a confidence, choose the confidence of each candidate, and judge at it. What the evidence
cannot show is said in a note or a reason of its own. A guard that fails hides nothing: quality,
parity and speed are judged as far as evidence stands (`integrity.standing`), and the gravest is
said first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from compilegate.evidence import Replicate, outputs_digest
from compilegate.gate.cost import cost_of
from compilegate.gate.decision import decide, decide_between_models
from compilegate.gate.integrity.confounds import find_confounds, listed, undeclared
from compilegate.gate.integrity.examination import Examined, Records, examine
from compilegate.gate.integrity.examples import unchecked_losses
from compilegate.gate.integrity.models.leakage import about_inputs_seen
from compilegate.gate.integrity.parity_record import doubts_of_parity
from compilegate.gate.integrity.precision import about_precision
from compilegate.gate.integrity.timing import examples_of_steps
from compilegate.gate.judgements import (
    Confound,
    EffectSplit,
    MemoryJudgement,
    MetricJudgement,
    NoiseFloor,
    ParityJudgement,
    SpeedJudgement,
)
from compilegate.gate.memory import judge_memory
from compilegate.gate.parity import judge_parity
from compilegate.gate.quality.compared_arms import (
    ArmQuality,
    Replicates,
    compare_arms,
    metric_by_seed,
)
from compilegate.gate.quality.effects import find_compiler_only, split_effect
from compilegate.gate.quality.looseness import about_loose
from compilegate.gate.quality.metrics import MetricUndefinedError, MetricValues
from compilegate.gate.quality.noninferiority import conclude, noise_floor, outcome_of
from compilegate.gate.quality.released import released_is_worse
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
from compilegate.gate.speed.arm_speed import UnknownSpeed, measure_arm
from compilegate.gate.speed.credibility import doubts_of, with_machine
from compilegate.gate.speed.hindrances import about_hindrances
from compilegate.gate.speed.judgement import about_pairs, judge_speed
from compilegate.gate.speed.machine import busy_machine
from compilegate.gate.speed.padding import about_padding
from compilegate.gate.speed.paired import paired_jobs
from compilegate.gate.statistics.failures import failed_in_any, judge_failures
from compilegate.gate.statistics.multiplicity import about_holm, holm_confidences
from compilegate.gate.verdict import BaselineVerdict, CandidateVerdict, Verdict
from compilegate.job.names import CHAMPION_SEED

_NOTHING_TO_COMPARE = "there is nothing to compare with"
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
    memory: MemoryJudgement | None
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
            arm: measure_arm(size, self.examined.timed(arm))
            for arm, size in examples_of_steps(experiment, self.examined.timed).items()
        }
        self.pairs = {
            arm: paired_jobs(
                self.examined.timed(arm), experiment.arms[experiment.baseline], declared
            )
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
        quality, compiler_only = self._quality()
        found = {}
        for arm in self.experiment.candidates:
            parity, about_parity = self._parity(arm)
            memory, about_memory = self._memory(arm)
            confounds = self._confounds(arm)
            about = [] if arm not in quality else [*quality[arm].findings]
            precision = about_precision(self.experiment, self.examined.records, arm)
            about += [] if precision is None else [precision]
            reasons, notes = split_findings([*about_parity, *about_memory, *about])
            found[arm] = _Candidate(
                arm=arm,
                reasons=[
                    *self._about_evidence(arm),
                    *self._released(arm),
                    *undeclared(confounds),
                    *reasons,
                ],
                notes=[
                    *notes,
                    *self._not_proven(arm in quality),
                    *self._padding(arm),
                    *self._hindrances(arm),
                ],
                parity=parity,
                memory=memory,
                confounds=listed(confounds),
                quality=quality.get(arm),
                compiler_only=compiler_only.get(arm),
            )
        return found

    def _quality(self) -> tuple[dict[str, ArmQuality], dict[str, str]]:
        """The quality of each candidate that can be compared, and the compiler-only one of each.

        Arms are compared on the seeds that both have scores of. Where evidence is sound these are
        all seeds; where it is not, what is left is compared and said, and passes nothing.
        """
        together: dict[tuple[int, ...], list[str]] = {}
        for arm in self.experiment.candidates:
            seeds = self._seeds_to_compare(arm)
            if seeds:
                together.setdefault(seeds, []).append(arm)
        quality: dict[str, ArmQuality] = {}
        compiler_only: dict[str, str] = {}
        for seeds, arms in together.items():
            among_them = find_compiler_only(self.experiment, arms)
            quality |= compare_arms(
                self.experiment.settings,
                _replicates(self.examined, self.experiment.baseline, seeds),
                {arm: _replicates(self.examined, arm, seeds) for arm in arms},
                among_them,
                self.values,
            )
            compiler_only |= among_them
        return quality, compiler_only

    def _seeds_to_compare(self, arm: str) -> tuple[int, ...]:
        examined, baseline = self.examined, self.experiment.baseline
        if self.experiment.champion:
            needless = examined.no_model_yet or self._without_comparison(arm) is not None
            return () if needless or not examined.scored(baseline) else examined.scored(arm)
        before = examined.scored(baseline)
        return tuple(seed for seed in examined.scored(arm) if seed in before)

    def _about_evidence(self, arm: str) -> tuple[Reason, ...]:
        """What the evidence of the arm and of the baseline decides, before any comparison."""
        found = self.examined.problems_of(arm)
        if self.examined.problems_of(self.experiment.baseline):
            return (*found, self._unsound_baseline(arm))
        without = self._without_comparison(arm)
        return found if without is None else (*found, without)

    def _without_comparison(self, arm: str) -> Reason | None:
        """What makes a comparison with the registered model needless."""
        examined, baseline = self.examined, self.experiment.baseline
        if not self.experiment.champion or examined.problems_of(arm):
            return None
        if examined.no_model_yet:
            sentence = "No model was approved before: there is nothing to compare with."
            return Reason(Code.CHAMPION_NONE, Outcome.PASS, sentence)
        if not examined.scored(baseline):
            return None
        before, after = (
            _replicates(examined, name, examined.scored(name)[:1]).examples[0]
            for name in (baseline, arm)
        )
        if outputs_digest(before) == outputs_digest(after):
            sentence = "The new model says of every example what the registered one says."
            return Reason(Code.CHAMPION_SAME, Outcome.PASS, sentence)
        return None

    def _unsound_baseline(self, arm: str) -> Reason:
        compared = bool(self._seeds_to_compare(arm))
        if self.experiment.champion:
            sentence = "The registered model cannot be compared with: its evidence is not sound."
            return failure(Code.CHAMPION_UNUSABLE, sentence)
        follows = "what is compared with it cannot pass" if compared else _NOTHING_TO_COMPARE
        sentence = f"The baseline's evidence is not sound: {follows}."
        return failure(Code.BASELINE_UNSOUND, sentence)

    def _not_proven(self, compared: bool) -> list[Note]:
        found = [_NOTHING_PROVEN] if compared and self.experiment.evidence == "printed" else []
        found += about_inputs_seen(self.examined.records.values())
        return found + unchecked_losses(self.experiment.settings, self.examined.records.values())

    def _hindrances(self, arm: str) -> list[Note]:
        declared = self.experiment.arms.get(arm)
        if declared is None or not declared.compiled:
            return []
        return about_hindrances([record.evidence for record in self.examined.timed(arm)])

    def _padding(self, arm: str) -> list[Note]:
        return about_padding([record.evidence for record in self.examined.timed(arm)])

    def _parity(self, arm: str) -> tuple[ParityJudgement | None, list[Reason | Note]]:
        declared = self.experiment.arms.get(arm)
        if declared is None or not declared.compiled:
            return None, []
        records = {
            seed: self.examined.records[arm, seed]
            for seed in self.experiment.seeds
            if self.examined.was_trained(arm, seed)
        }
        settings = self.experiment.settings.parity
        judgement, about = judge_parity(arm, records, settings)
        same_bits = any(self._has_the_same_bits(arm, seed) for seed in records)
        doubts = doubts_of_parity(records, settings, same_bits=same_bits)
        return judgement, [*([] if about is None else [about]), *doubts]

    def _has_the_same_bits(self, arm: str, seed: int) -> bool:
        """Whether the arm's model says of every example what the baseline's of that seed says."""
        both = [self.examined.records.get((name, seed)) for name in (self.experiment.baseline, arm)]
        before, after = (each and each.evidence.digests.get("outputs") for each in both)
        return before is not None and before == after

    def _released(self, arm: str) -> list[Reason]:
        """What is wrong with the one model of the arm that would be released."""
        seeds, first = self._seeds_to_compare(arm), self.experiment.seeds[0]
        if first not in seeds or len(self.experiment.seeds) < 2:
            return []
        in_order = (first, *(seed for seed in seeds if seed != first))
        before, after = (
            _replicates(self.examined, name, in_order) for name in (self.experiment.baseline, arm)
        )
        return released_is_worse(self.experiment.settings, first, before, after, self.values)

    def _memory(self, arm: str) -> tuple[MemoryJudgement | None, list[Reason]]:
        if self.experiment.champion:
            return None, []
        before, after = (
            [
                self.examined.records[name, seed].evidence
                for seed in self.experiment.seeds
                if self.examined.was_trained(name, seed)
            ]
            for name in (self.experiment.baseline, arm)
        )
        limit = self.experiment.settings.max_memory_increase
        judgement, about = judge_memory(before, after, limit)
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
            self.experiment.settings.examples_tolerance,
        )

    def _passes(self, arm: str, confidence: float) -> bool:
        """Whether all that decides passes at this confidence: needs no sentences."""
        candidate = self.candidates[arm]
        if candidate.quality is None:
            return False
        outcomes = [outcome_of(it, confidence) for it in candidate.quality.comparisons]
        _, about_speed = self._speed(arm, confidence)
        about_seeds, _ = split_findings([self._about_seeds(candidate, confidence)])
        outcomes += [reason.outcome for reason in (*candidate.reasons, *about_seeds, *about_speed)]
        return all(outcome in (None, Outcome.PASS) for outcome in outcomes)

    def _about_seeds(self, candidate: _Candidate, confidence: float) -> Reason | Note:
        """How often seeds may fail, by those that did: a job that failed is one of them."""
        compared = [] if candidate.quality is None else candidate.quality.comparisons
        failed_jobs = sum(
            not self.examined.was_trained(candidate.arm, seed) for seed in self.experiment.seeds
        )
        failed = failed_jobs + failed_in_any(
            each.failed_seeds for each in compared if each.failed_seeds and each.part is None
        )
        seeds = len(self.experiment.seeds)
        allowed = self.experiment.settings.max_failure_rate
        return judge_failures(seeds, min(failed, seeds), allowed, confidence)

    def _baseline(self) -> BaselineVerdict:
        experiment, examined = self.experiment, self.examined
        reasons = examined.problems_of(experiment.baseline)
        floors: list[NoiseFloor] = []
        if not reasons and not experiment.champion and len(experiment.seeds) > 1:
            seeds = tuple(experiment.seeds)
            replicates = _replicates(examined, experiment.baseline, seeds)
            for metric, guard in experiment.settings.metrics.items():
                # A watched metric may be undefined; each candidate's notes say so.
                with suppress(MetricUndefinedError):
                    values = metric_by_seed(metric, guard, replicates, self.values)
                    floors.append(noise_floor(metric, values))
        return BaselineVerdict(
            arm=experiment.baseline,
            sound=not reasons,
            reasons=gravest_first(reasons),
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
            about_quality.append(self._about_seeds(candidate, confidence))
            decided, seen = split_findings(about_quality)
            reasons += decided
            effects, about_effects = self._effects(candidate, confidence)
            notes += [*about_effects, *seen]
            notes += about_loose(metrics, self.experiment.settings)
        if self._has_times(arm):
            speed, about_speed = self._speed(arm, confidence)
            reasons += about_speed
            notes += [] if speed is None else about_pairs(speed, self.pairs[arm])
        if metrics or speed is not None:
            notes += about_holm(
                len(self.experiment.candidates), self.experiment.settings.confidence, confidence
            )
        return CandidateVerdict(
            arm=arm,
            outcome=worst(reason.outcome for reason in reasons),
            reasons=gravest_first(reasons),
            metrics=tuple(metrics),
            speed=speed,
            confounds=candidate.confounds,
            confidence=confidence,
            parity=candidate.parity,
            memory=candidate.memory,
            effects=effects,
            notes=tuple(notes),
        )

    def _has_times(self, arm: str) -> bool:
        both = (self.experiment.baseline, arm)
        return all(self.examined.timed(name) for name in both)

    def _speed(self, arm: str, confidence: float) -> tuple[SpeedJudgement | None, list[Reason]]:
        """Nothing is asked of the speed where nothing was compiled."""
        if self.experiment.champion:
            return None, []
        speed, reason = judge_speed(
            self.speeds[self.experiment.baseline],
            self.speeds[arm],
            self.experiment.settings,
            confidence,
            self.pairs[arm],
            busy_machine=busy_machine(
                [*self.examined.timed(self.experiment.baseline), *self.examined.timed(arm)]
            ),
        )
        before, after = self.speeds[self.experiment.baseline], self.speeds[arm]
        if speed is None or isinstance(before, UnknownSpeed) or isinstance(after, UnknownSpeed):
            return speed, [reason]
        if self.experiment.evidence == "written":
            both = self.experiment.baseline, arm
            declared = self.experiment.arms
            records = [[it.evidence for it in self.examined.timed(name)] for name in both]
            reason = with_machine(
                reason, (declared[both[0]], declared[both[1]]), (records[0], records[1])
            )
        return speed, [reason, *doubts_of(speed, before, after, self.experiment.settings)]

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


def _replicates(examined: Examined, arm: str, seeds: Sequence[int]) -> Replicates:
    """What records of these seeds measured, row by row the same examples in all of them. A champion
    is one model, which every seed of the new one is held against."""
    champion = examined.experiment.champion
    if champion and arm == examined.experiment.baseline:
        seeds = [CHAMPION_SEED] * len(seeds)
    records = [examined.records[arm, seed] for seed in seeds]
    return Replicates(
        examples=[record.examples for record in records if record.examples is not None],
        reported=[record.evidence.metrics for record in records],
        called="the registered model" if champion else "the baseline",
    )
