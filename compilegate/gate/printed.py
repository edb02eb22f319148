"""The gate of jobs that left nothing but printed metrics: judged over seeds, and over nothing else.

With no examples there is no pairing, and with no record no proof: that a compiler ran, that the
data were the same, that compiling was repaid. The verdict says so. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from compilegate.evidence import Replicate
from compilegate.gate.decision import decide
from compilegate.gate.integrity.examples import MOST_VALUE
from compilegate.gate.quality.comparison import ArmScores, compare_scores
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
from compilegate.gate.speed.arm_speed import ArmSpeed
from compilegate.gate.speed.compile_time import CompileTimes
from compilegate.gate.speed.speed import judge_speed
from compilegate.gate.statistics.multiplicity import holm_confidences
from compilegate.gate.statistics.noninferiority import conclude, noise_floor
from compilegate.gate.verdict import BaselineVerdict, CandidateVerdict, Verdict

SPEED = "samples_per_second"
"""The printed metric that is the speed."""
LEAST_SPEED = 1e-9
"""Samples per second: less is no measurement, and overflows ratios."""


@dataclass(frozen=True)
class Printed:
    """What one job printed."""

    job: str
    metrics: Mapping[str, float]


def judge_printed(experiment: Experiment, printed: Mapping[Replicate, Printed]) -> Verdict:
    """The verdict on one execution; `printed` holds what the job of each (arm, seed) printed."""
    problems = {arm: _problems(arm, experiment, printed) for arm in experiment.arms}
    judged = {
        arm: _Candidate(arm, experiment, printed)
        for arm in experiment.candidates
        if not problems[arm] and not problems[experiment.baseline]
    }
    confidences = holm_confidences(
        experiment.candidates,
        experiment.settings.confidence,
        lambda arm, confidence: arm in judged and judged[arm].outcome(confidence) is Outcome.PASS,
    )
    baseline = _baseline(experiment, printed, problems[experiment.baseline])
    candidates = tuple(
        judged[arm].verdict(confidences[arm])
        if arm in judged
        else _unsound(arm, problems[arm] or (_no_baseline(),), confidences[arm])
        for arm in experiment.candidates
    )
    return Verdict(
        workload=experiment.workload,
        seeds=tuple(experiment.seeds),
        confidence=experiment.settings.confidence,
        decision=decide(baseline, candidates, first_seed=experiment.seeds[0]),
        baseline=baseline,
        candidates=candidates,
    )


@dataclass(frozen=True)
class _Candidate:
    """A candidate whose jobs printed all that is asked for, as the baseline's did."""

    arm: str
    experiment: Experiment
    printed: Mapping[Replicate, Printed]

    def outcome(self, confidence: float) -> Outcome:
        return self.verdict(confidence).outcome

    def verdict(self, confidence: float) -> CandidateVerdict:
        settings = self.experiment.settings
        judged = [
            conclude(
                compare_scores(
                    name,
                    guard,
                    self._scores(self.experiment.baseline, name),
                    self._scores(self.arm, name),
                ),
                confidence,
            )
            for name, guard in settings.metrics.items()
        ]
        speed, about_speed = judge_speed(
            self._speed(self.experiment.baseline), self._speed(self.arm), settings, confidence
        )
        reasons, notes = split_findings([finding for _, finding in judged])
        reasons.append(about_speed)
        return CandidateVerdict(
            arm=self.arm,
            outcome=worst(reason.outcome for reason in reasons),
            reasons=gravest_first(reasons),
            metrics=tuple(metric for metric, _ in judged),
            speed=speed,
            confounds=(),
            confidence=confidence,
            notes=(*notes, _NOTHING_PROVEN),
        )

    def _scores(self, arm: str, metric: str) -> ArmScores:
        return ArmScores(np.array(_values(arm, metric, self.experiment, self.printed)))

    def _speed(self, arm: str) -> ArmSpeed | None:
        rates = _values(arm, SPEED, self.experiment, self.printed)
        if any(rate is None for rate in rates):
            return None
        return ArmSpeed(
            batch_size=self.experiment.arms[arm].batch_size,
            rates=tuple(rate for rate in rates if rate is not None),
            steady_seconds=(),
            compilation=CompileTimes(cold=None, warm=None),
            train_seconds=0.0,
            peak_memory_bytes=0,
            steps=1,
        )


_NOTHING_PROVEN = Note(
    Code.PRINTED_ONLY,
    "The jobs left only metrics that they printed: nothing proves that the compiler ran, that both "
    "arms saw the same data, or that compiling was repaid.",
)


def _values(
    arm: str, metric: str, experiment: Experiment, printed: Mapping[Replicate, Printed]
) -> list[float | None]:
    return [printed[arm, seed].metrics.get(metric) for seed in experiment.seeds]


def _problems(
    arm: str, experiment: Experiment, printed: Mapping[Replicate, Printed]
) -> tuple[Reason, ...]:
    """What makes an arm's metrics unusable: missing, not finite, or of one job twice."""
    found: list[Reason] = []
    jobs = [each.job for key, each in printed.items()]
    for seed in experiment.seeds:
        told = printed.get((arm, seed))
        if told is None:
            sentence = f"Seed {seed}: there are no printed metrics."
            found.append(failure(Code.EVIDENCE_MISSING, sentence, seed=seed))
            continue
        if jobs.count(told.job) > 1:
            sentence = f"Seed {seed}: training job {told.job!r} is also that of another replicate."
            found.append(failure(Code.EVIDENCE_DUPLICATED, sentence, seed=seed))
        for name in experiment.settings.metrics:
            if name not in told.metrics:
                sentence = f"Seed {seed}: the job did not print {name}, which the gate judges."
                found.append(failure(Code.METRIC_MISSING, sentence, seed=seed, metric=name))
        for name, value in told.metrics.items():
            # False for NaN too.
            if not (LEAST_SPEED if name == SPEED else -MOST_VALUE) <= value <= MOST_VALUE:
                sentence = f"Seed {seed}: the job printed {name} as {value}."
                found.append(failure(Code.METRIC_NOT_FINITE, sentence, seed=seed, metric=name))
    return tuple(found)


def _baseline(
    experiment: Experiment, printed: Mapping[Replicate, Printed], problems: tuple[Reason, ...]
) -> BaselineVerdict:
    arm = experiment.baseline
    floors = (
        ()
        if problems or len(experiment.seeds) < 2
        else tuple(
            noise_floor(name, [printed[arm, seed].metrics[name] for seed in experiment.seeds])
            for name in experiment.settings.metrics
        )
    )
    return BaselineVerdict(arm, not problems, problems, floors)


def _unsound(arm: str, reasons: tuple[Reason, ...], confidence: float) -> CandidateVerdict:
    return CandidateVerdict(
        arm=arm,
        outcome=Outcome.FAIL,
        reasons=reasons,
        metrics=(),
        speed=None,
        confounds=(),
        confidence=confidence,
    )


def _no_baseline() -> Reason:
    return failure(
        Code.BASELINE_UNSOUND,
        "The baseline's metrics are not sound: there is nothing to compare with.",
    )
