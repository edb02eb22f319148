"""Examines all evidence of one execution: which records can be judged, and what is wrong else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from compilegate.evidence import EvidenceError, EvidenceRecord, Replicate, UndeclaredEvidenceError
from compilegate.evidence.rows import in_the_order_of
from compilegate.gate.integrity.agreement import check_agreement, find_duplicates
from compilegate.gate.integrity.expectation import Expectation
from compilegate.gate.integrity.known_rows import KnownRows
from compilegate.gate.integrity.replicate import check_record, unusable
from compilegate.gate.quality.metrics import MetricValues
from compilegate.gate.reasons import Reason
from compilegate.gate.settings import Experiment

Records = Mapping[Replicate, EvidenceRecord | EvidenceError]


@dataclass(frozen=True)
class Examined:
    """The records that could be read, and what is wrong with each replicate."""

    seeds: Sequence[int]
    records: Mapping[Replicate, EvidenceRecord]
    problems: Mapping[Replicate, Sequence[Reason]]

    def of_arm(self, arm: str) -> list[EvidenceRecord]:
        """The arm's readable records, in the order of the seeds."""
        return [self.records[arm, seed] for seed in self.seeds if (arm, seed) in self.records]

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


def examine(
    experiment: Experiment,
    records: Records,
    jobs: Mapping[Replicate, str] | None,
    values: MetricValues,
) -> Examined:
    """Check every record by itself, and then all of them together; see `judge` for the rest."""
    readable: dict[Replicate, EvidenceRecord] = {}
    problems: dict[Replicate, list[Reason]] = defaultdict(list)
    known = KnownRows()
    for arm, seed in experiment.replicates:
        record = records.get((arm, seed))
        if record is None or isinstance(record, EvidenceError):
            problems[arm, seed].append(unusable(seed, record))
            continue
        readable[arm, seed] = record
        job = None if jobs is None else jobs.get((arm, seed), "")
        expected = Expectation(
            arm, seed, experiment.arms[arm], experiment.settings, job, known, values
        )
        problems[arm, seed] += check_record(record, expected)
    for (arm, seed), record in records.items():
        if isinstance(record, UndeclaredEvidenceError):
            problems[arm, seed].append(unusable(seed, record))
    for replicate, found in find_duplicates(readable, experiment.baseline).items():
        problems[replicate] += found
    _compare_with_reference(experiment, readable, problems)
    return Examined(experiment.seeds, readable, problems)


def _compare_with_reference(
    experiment: Experiment,
    readable: dict[Replicate, EvidenceRecord],
    problems: Mapping[Replicate, list[Reason]],
) -> None:
    """Compare each replicate that has been usable so far with the baseline's first usable one.

    The rows of those that agree are put into the reference's order, so that rows meet.
    """
    usable = {key: record for key, record in readable.items() if not problems[key]}
    of_baseline = [record for (arm, _), record in usable.items() if arm == experiment.baseline]
    if not of_baseline:
        return
    reference = of_baseline[0]
    for (arm, seed), record in usable.items():
        found = tuple(check_agreement(record, reference, seed))
        problems[arm, seed].extend(found)
        if not found and record.examples is not None and reference.examples is not None:
            examples = in_the_order_of(record.examples, reference.examples)
            readable[arm, seed] = replace(record, examples=examples)
