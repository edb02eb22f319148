"""Examines all evidence of one execution: which records can be judged, and what is wrong else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from compilegate.evidence import (
    EvidenceError,
    EvidenceRecord,
    Origin,
    Replicate,
    UndeclaredEvidenceError,
    usable,
)
from compilegate.evidence.rows import in_the_order_of
from compilegate.gate.integrity.agreement import check_agreement, find_duplicates
from compilegate.gate.integrity.copied_times import find_copied_times
from compilegate.gate.integrity.examples import (
    of_equal_losses,
    of_one_class,
    of_other_inputs,
)
from compilegate.gate.integrity.expectation import Expectation, KnownRows
from compilegate.gate.integrity.models.beginnings import seeds_begin_alike
from compilegate.gate.integrity.models.courses import ends_elsewhere, starts_elsewhere
from compilegate.gate.integrity.models.leakage import (
    trained_on_other_data,
    trained_on_validation,
)
from compilegate.gate.integrity.models.learning import below_floor, too_good
from compilegate.gate.integrity.models.likeness import find_likeness, seeds_too_close
from compilegate.gate.integrity.precision import check_one_precision
from compilegate.gate.integrity.replicate import check_record, unusable
from compilegate.gate.integrity.standing import scores_stand, times_stand
from compilegate.gate.quality.metrics import MetricValues
from compilegate.gate.reasons import Reason, Subject
from compilegate.gate.settings import Experiment
from compilegate.job.endings import ARM, ENDINGS, NEED
from compilegate.job.names import CHALLENGER_ARM, CHAMPION_ARM, CHAMPION_SEED

Records = Mapping[Replicate, EvidenceRecord | EvidenceError]
"""By (arm, seed), the evidence or the error that reading it met."""


@dataclass(frozen=True)
class Examined:
    """The records that could be read, and what is wrong with each replicate."""

    experiment: Experiment
    records: Mapping[Replicate, EvidenceRecord]
    problems: Mapping[Replicate, tuple[Reason, ...]]

    def timed(self, arm: str) -> list[EvidenceRecord]:
        """Those of a whole training whose times stand, whatever else is wrong with them."""
        return [
            self.records[arm, seed]
            for seed in self.experiment.seeds_of(arm)
            if self.was_trained(arm, seed) and times_stand(self.problems.get((arm, seed), ()))
        ]

    def scored(self, arm: str) -> tuple[int, ...]:
        """The seeds of those whose scores stand, whatever else is wrong with them."""
        return tuple(
            seed
            for seed in self.experiment.seeds_of(arm)
            if self.was_trained(arm, seed)
            and scores_stand(self.problems.get((arm, seed), ()), self.experiment.settings)
        )

    def was_trained(self, arm: str, seed: int) -> bool:
        """Whether the replicate recorded a whole training; a failed one knows little of itself."""
        record = self.records.get((arm, seed))
        return record is not None and record.evidence.failure is None

    def problems_of(self, arm: str) -> tuple[Reason, ...]:
        """What is wrong with the arm's replicates, the declared ones first; empty when it can be
        judged."""
        return tuple(
            reason for (name, _), found in self.problems.items() if name == arm for reason in found
        )

    @property
    def no_model_yet(self) -> bool:
        """Whether there is no registered model that a new one could be compared with."""
        record = self.records.get((CHAMPION_ARM, CHAMPION_SEED))
        return (
            self.experiment.champion
            and record is not None
            and record.evidence.origin == Origin.ABSENT
        )


def examine(
    experiment: Experiment,
    records: Records,
    jobs: Mapping[Replicate, str] | None,
    values: MetricValues,
) -> Examined:
    """Check every record by itself, and then all of them together; see `judge` for the rest."""
    records = {replicate: usable(record) for replicate, record in records.items()}
    readable: dict[Replicate, EvidenceRecord] = {}
    problems: dict[Replicate, list[Reason]] = defaultdict(list)
    known, lost = KnownRows(), _lost(experiment, records)
    for arm, seed in experiment.replicates:
        record = records.get((arm, seed))
        about = _subject(experiment, arm, seed)
        if record is None or isinstance(record, EvidenceError):
            problems[arm, seed].append(unusable(about, record))
            continue
        readable[arm, seed] = record
        expected = Expectation(
            about=about,
            arm=arm,
            origins=_origins(experiment, arm),
            declaration=experiment.arms.get(arm),
            settings=experiment.settings,
            job=None if jobs is None or about.registered else jobs.get((arm, seed), ""),
            known=known,
            values=values,
            lost=(arm, seed) in lost,
        )
        problems[arm, seed] += check_record(record, expected)
    for (arm, seed), record in records.items():
        if isinstance(record, UndeclaredEvidenceError):
            problems[arm, seed].append(unusable(Subject(seed), record))
    trained = {key: record for key, record in readable.items() if key in experiment.trained}
    for replicate, found in find_duplicates(trained, experiment.baseline).items():
        problems[replicate] += found
    whole = {key: record for key, record in trained.items() if record.evidence.failure is None}
    for replicate, found in find_copied_times(whole, experiment.baseline).items():
        problems[replicate] += found
    for replicate, reason in check_one_precision(experiment, trained):
        problems[replicate].append(reason)
    _compare_with_reference(experiment, readable, problems)
    _look_at_models(experiment, readable, problems, values)
    return Examined(
        experiment, readable, {key: tuple(found) for key, found in problems.items() if found}
    )


def _lost(experiment: Experiment, records: Records) -> frozenset[Replicate]:
    """The replicates whose jobs ended without a model by the machine's doing, which is no evidence
    about their arm. Memory or time that ran out in all jobs of an arm, and in none of the
    baseline's attempts, is what the arm needs, and not lost."""
    evidence = {
        replicate: record.evidence
        for replicate, record in records.items()
        if isinstance(record, EvidenceRecord)
    }
    endings = {
        replicate: ENDINGS[each.ending]
        for replicate, each in evidence.items()
        if each.failure is not None and each.ending in ENDINGS
    }
    baseline = [each for (arm, _), each in evidence.items() if arm == experiment.baseline]
    met = {name for each in baseline for name in (each.ending, *each.attempts)}
    found = set()
    for (arm, seed), ending in endings.items():
        alike = (endings.get((arm, other)) for other in experiment.seeds_of(arm))
        needed = ending.about == NEED and ending.name not in met and {*alike} == {ending}
        if ending.about != ARM and not needed:
            found.add((arm, seed))
    return frozenset(found)


def _look_at_models(
    experiment: Experiment,
    readable: Mapping[Replicate, EvidenceRecord],
    problems: Mapping[Replicate, list[Reason]],
    values: MetricValues,
) -> None:
    """What all models together show: that they are several, and that they have learnt something."""
    scored = {
        key: record
        for key, record in readable.items()
        if key in experiment.trained
        and record.evidence.failure is None
        and scores_stand(problems[key], experiment.settings)
    }
    for replicate, found in find_likeness(scored, experiment.baseline).items():
        problems[replicate].extend(found)
    # What is damaged says nothing of others.
    sound = {key: record for key, record in scored.items() if not problems[key]}
    for replicate, reason in seeds_begin_alike(sound):
        problems[replicate].append(reason)
    for arm in dict.fromkeys(arm for arm, _ in experiment.trained):
        seeds = [seed for seed in experiment.seeds if (arm, seed) in scored]
        if seeds:
            records = [scored[arm, seed] for seed in seeds]
            found = list(below_floor(arm, records, experiment.settings, values))
            about = _subject(experiment, arm, seeds[0])
            reference = scored.get((experiment.baseline, seeds[0]))
            found += trained_on_validation(about, records[0], reference)
            if arm != experiment.baseline:
                usual = {
                    seed: record
                    for (of, seed), record in scored.items()
                    if of == experiment.baseline
                }
                own = {seed: scored[arm, seed] for seed in seeds}
                if _have_one_recipe(experiment, arm):
                    found += starts_elsewhere(usual, own)
                    found += ends_elsewhere(usual, own)
                    found += seeds_too_close(scored, experiment.baseline, arm)
                    if _pad_alike(experiment, arm):
                        found += of_other_inputs(own, usual)
                    found += too_good(usual, own, experiment.settings, values)
                found += trained_on_other_data(own, usual, experiment.settings.examples_tolerance)
                found += of_one_class(records[0])
                found += of_equal_losses(records[0])
            problems[arm, seeds[0]].extend(found)


def _have_one_recipe(experiment: Experiment, arm: str) -> bool:
    """Whether the arm is declared to train as the baseline does."""
    before, after = (experiment.arms.get(name) for name in (experiment.baseline, arm))
    return (
        before is not None
        and after is not None
        and before.global_batch_size == after.global_batch_size
        and before.learning_rate == after.learning_rate
    )


def _pad_alike(experiment: Experiment, arm: str) -> bool:
    return experiment.arms[experiment.baseline].padding == experiment.arms[arm].padding


def _subject(experiment: Experiment, arm: str, seed: int) -> Subject:
    return Subject(seed, registered=experiment.champion and arm == CHAMPION_ARM)


def _origins(experiment: Experiment, arm: str) -> tuple[str, ...]:
    if experiment.champion and arm == CHAMPION_ARM:
        return Origin.SCORED, Origin.ABSENT
    return (Origin.PRINTED if experiment.evidence == "printed" else Origin.MEASURED,)


def _compare_with_reference(
    experiment: Experiment,
    readable: dict[Replicate, EvidenceRecord],
    problems: Mapping[Replicate, list[Reason]],
) -> None:
    """Compare each replicate whose scores stand so far with the first such one of the arm that all
    are held against: the baseline, or the new model, which was trained on today's data. One with
    nothing wrong at all comes before the others.

    The rows of those that agree are put into the reference's order, so that rows meet.
    """
    of, whose = (
        (CHALLENGER_ARM, "the new model")
        if experiment.champion
        else (experiment.baseline, "the baseline")
    )
    usable = {
        key: record
        for key, record in readable.items()
        if record.evidence.failure is None and scores_stand(problems[key], experiment.settings)
    }
    references = [key for key in usable if key[0] == of]
    reference = usable[min(references, key=lambda key: bool(problems[key]))] if references else None
    if reference is None:
        return
    for (arm, seed), record in usable.items():
        about = _subject(experiment, arm, seed)
        found = tuple(check_agreement(record, reference, about, whose))
        problems[arm, seed].extend(found)
        if record.examples is None or reference.examples is None:
            continue
        if scores_stand(found, experiment.settings):
            examples = in_the_order_of(record.examples, reference.examples)
            readable[arm, seed] = replace(record, examples=examples)
