"""Composes the gate: all evidence of one execution in, the verdict out. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.gate.agreement import Replicate, check_agreement, find_duplicates, sorted_by_id
from pipelines.gate.config import Experiment
from pipelines.gate.confounds import find_confounds, undeclared
from pipelines.gate.decision import decide
from pipelines.gate.integrity import Expectation, check_record, unusable
from pipelines.gate.noninferiority import judge_metric, noise_floor
from pipelines.gate.reasons import Code, Reason, failure, gravest_first, worst
from pipelines.gate.speed import judge_speed, measure_arm
from pipelines.gate.verdict import (
    BaselineVerdict,
    CandidateVerdict,
    Confound,
    MetricJudgement,
    NoiseFloor,
    SpeedJudgement,
    Verdict,
)
from training.evidence import EvidenceError, EvidenceRecord, Examples

Records = Mapping[Replicate, EvidenceRecord | EvidenceError]


@dataclass(frozen=True)
class _Examined:
    """The records that could be read, and what is wrong with each replicate."""

    records: Mapping[Replicate, EvidenceRecord]
    problems: Mapping[Replicate, Sequence[Reason]]

    def of_arm(self, arm: str, seeds: Sequence[int]) -> list[EvidenceRecord]:
        """The arm's readable records, in the order of the seeds."""
        return [self.records[arm, seed] for seed in seeds if (arm, seed) in self.records]

    def was_trained(self, arm: str, seed: int) -> bool:
        """Whether the replicate recorded a whole training; a failed one knows little of itself."""
        record = self.records.get((arm, seed))
        return record is not None and record.evidence.failure is None

    def problems_of(self, arm: str, seeds: Sequence[int]) -> tuple[Reason, ...]:
        return tuple(reason for seed in seeds for reason in self.problems.get((arm, seed), ()))


def judge(
    experiment: Experiment, records: Records, jobs: Mapping[Replicate, str] | None = None
) -> Verdict:
    """The verdict on one execution.

    `records` holds, for each (arm, seed), the evidence or the error that reading it met; one that
    is not there is missing evidence. `jobs` names the training job that this execution ran, or took
    from the step cache, for each (arm, seed): evidence of another job fails. None skips that check.
    """
    examined = _examine(experiment, records, jobs)
    baseline = _judge_baseline(experiment, examined)
    candidates = tuple(
        _judge_candidate(arm, experiment, examined, baseline) for arm in experiment.candidates
    )
    return Verdict(
        workload=experiment.workload,
        seeds=tuple(experiment.seeds),
        confidence=experiment.settings.confidence,
        decision=decide(baseline, candidates, first_seed=experiment.seeds[0]),
        baseline=baseline,
        candidates=candidates,
    )


def _examine(
    experiment: Experiment, records: Records, jobs: Mapping[Replicate, str] | None
) -> _Examined:
    readable: dict[Replicate, EvidenceRecord] = {}
    problems: dict[Replicate, list[Reason]] = defaultdict(list)
    for arm, seed in experiment.replicates:
        record = records.get((arm, seed))
        if record is None or isinstance(record, EvidenceError):
            problems[arm, seed].append(unusable(seed, record))
            continue
        readable[arm, seed] = record
        job = None if jobs is None else jobs.get((arm, seed), "")
        expected = Expectation(arm, seed, experiment.arms[arm], experiment.settings, job)
        problems[arm, seed] += check_record(record, expected)
    for replicate, found in find_duplicates(readable, experiment.baseline).items():
        problems[replicate] += found
    _compare_with_reference(experiment, readable, problems)
    return _Examined(readable, problems)


def _compare_with_reference(
    experiment: Experiment,
    readable: Mapping[Replicate, EvidenceRecord],
    problems: Mapping[Replicate, list[Reason]],
) -> None:
    """Compare each replicate that has been usable so far with the baseline's first usable one."""
    usable = {key: record for key, record in readable.items() if not problems[key]}
    of_baseline = [record for (arm, _), record in usable.items() if arm == experiment.baseline]
    if not of_baseline:
        return
    for (arm, seed), record in usable.items():
        problems[arm, seed].extend(check_agreement(record, of_baseline[0], seed))


def _judge_baseline(experiment: Experiment, examined: _Examined) -> BaselineVerdict:
    reasons = examined.problems_of(experiment.baseline, experiment.seeds)
    floors: tuple[NoiseFloor, ...] = ()
    if not reasons and len(experiment.seeds) > 1:
        replicates = _examples(examined.of_arm(experiment.baseline, experiment.seeds))
        floors = tuple(noise_floor(metric, replicates) for metric in experiment.settings.metrics)
    return BaselineVerdict(experiment.baseline, not reasons, reasons, floors)


def _judge_candidate(
    arm: str, experiment: Experiment, examined: _Examined, baseline: BaselineVerdict
) -> CandidateVerdict:
    reasons = list(examined.problems_of(arm, experiment.seeds))
    if not baseline.sound:
        sentence = "The baseline's evidence is not sound: there is nothing to compare with."
        reasons.append(failure(Code.BASELINE_UNSOUND, sentence))
    confounds = _confounds(arm, experiment, examined)
    reasons += undeclared(confounds)
    comparable = baseline.sound and not examined.problems_of(arm, experiment.seeds)
    metrics: tuple[MetricJudgement, ...] = ()
    speed: SpeedJudgement | None = None
    if comparable:
        metrics, about_quality = _judge_quality(arm, experiment, examined)
        speed, about_speed = _judge_speed(arm, experiment, examined)
        reasons += [*about_quality, about_speed]
    outcome = worst(reason.outcome for reason in reasons)
    return CandidateVerdict(arm, outcome, gravest_first(reasons), metrics, speed, confounds)


def _confounds(arm: str, experiment: Experiment, examined: _Examined) -> tuple[Confound, ...]:
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


def _judge_quality(
    arm: str, experiment: Experiment, examined: _Examined
) -> tuple[tuple[MetricJudgement, ...], tuple[Reason, ...]]:
    baseline = _examples(examined.of_arm(experiment.baseline, experiment.seeds))
    candidate = _examples(examined.of_arm(arm, experiment.seeds))
    settings = experiment.settings
    judged = [
        judge_metric(metric, guard, baseline, candidate, settings.confidence)
        for metric, guard in settings.metrics.items()
    ]
    return tuple(judgement for judgement, _ in judged), tuple(reason for _, reason in judged)


def _judge_speed(
    arm: str, experiment: Experiment, examined: _Examined
) -> tuple[SpeedJudgement | None, Reason]:
    measured = {
        name: measure_arm(experiment.arms[name].batch_size, examined.of_arm(name, experiment.seeds))
        for name in (experiment.baseline, arm)
    }
    return judge_speed(
        measured[experiment.baseline],
        measured[arm],
        min_speedup=experiment.settings.min_speedup,
        confidence=experiment.settings.confidence,
    )


def _examples(records: Sequence[EvidenceRecord]) -> list[Examples]:
    """The examples of sound records, row by row the same in all of them."""
    return [sorted_by_id(record.examples) for record in records if record.examples is not None]
