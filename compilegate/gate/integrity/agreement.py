"""Agreement: can these replicates be compared with each other?

The checks that need several records side by side: nothing is duplicated, all saw the same training
data, and all scored the same validation examples with the same labels, targets and categories.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from compilegate.evidence import EvidenceRecord, Examples, FloatArray, Replicate
from compilegate.evidence.rows import in_the_order_of, same_column
from compilegate.gate.reasons import Code, Reason, Subject, clipped

ROUNDED = 2.0**-23
"""What a number in single precision is off by, as a share of itself."""
SAME_LOSS = 0.01
"""What the same course may differ by, as a share of the losses' range."""


def find_duplicates(
    records: Mapping[Replicate, EvidenceRecord], baseline: str
) -> dict[Replicate, list[Reason]]:
    """Replicates that claim the same training job, or hold the same model or the same times of all
    steps, as another one.

    Between a candidate and the baseline the candidate is to blame: a comparison of the baseline
    with itself must not pass, and must not cost the baseline its soundness either.
    """
    found: dict[Replicate, list[Reason]] = defaultdict(list)
    for code, what, shared in (
        (Code.EVIDENCE_DUPLICATED, "training job", _sharing_a_job(records)),
        (Code.MODEL_DUPLICATED, "model digest", _sharing_a_digest(records, "model")),
        # Clocks never repeat themselves: the same losses and times are a copy under another name.
        (Code.EVIDENCE_DUPLICATED, "digest of steps.npz", _sharing_a_digest(records, "steps")),
        (Code.EVIDENCE_DUPLICATED, "digest of paired.npz", _sharing_a_digest(records, "paired")),
    ):
        for value, replicates in shared.items():
            arms = {arm for arm, _ in replicates}
            for arm, seed in replicates:
                others = [other for other in replicates if other != (arm, seed)]
                if arm == baseline and arms != {baseline}:
                    others = [other for other in others if other[0] == baseline]
                if code is Code.MODEL_DUPLICATED:
                    others = [
                        each for each in others if not _equal_bits(records, (arm, seed), each)
                    ]
                if not others:
                    continue
                other_arm, other_seed = others[0]
                told = (
                    f"{what} {clipped(value, 80)!r} is also that of {other_arm!r}, seed "
                    f"{other_seed}: two replicates cannot share it."
                )
                found[arm, seed].append(Subject(seed).fails(code, told))
    return found


def _equal_bits(
    records: Mapping[Replicate, EvidenceRecord], one: Replicate, other: Replicate
) -> bool:
    """Whether two arms may well have the same model: of one seed, with the same scores, by two
    compilers of which one at least ran. Some compute what eager does to the last bit, as CUDA
    graphs alone."""
    scored = [records[each].evidence.digests.get("outputs") for each in (one, other)]
    if scored[0] != scored[1] or not same_course(records[one], records[other]):
        return False
    compilers = [records[each].evidence.compiler for each in (one, other)]
    if one[1] != other[1] or one[0] == other[0] or None in compilers:
        return False
    named = [(each.name, each.ran, dict(each.proof)) for each in compilers if each is not None]
    return named[0] != named[1] and any(ran for _, ran, _ in named)


def same_course(one: EvidenceRecord, other: EvidenceRecord) -> bool:
    """Whether two trainings had the same losses: weights that are equal in the end were equal all
    the way. Losses that are logged with fewer digits, or of some steps only, are nearly so."""
    if one.steps is None or other.steps is None:
        return True
    before, after = one.steps.loss, other.steps.loss
    if len(before) != len(after):
        return False
    scale = max(float(np.ptp(before)), float(np.abs(before).mean()))
    return bool(np.abs(before - after).max() <= SAME_LOSS * scale) if len(before) else True


def check_agreement(
    record: EvidenceRecord, reference: EvidenceRecord, about: Subject, whose: str
) -> Iterator[Reason]:
    """How a replicate differs from the reference in what both must share.

    `whose` names the arm of the reference in sentences, as "the baseline". A model that was
    trained before saw other training data, but is scored on the same validation examples.
    """
    trained = record.evidence.origin == reference.evidence.origin
    if trained and record.evidence.digests.get("data") != reference.evidence.digests.get("data"):
        told = f"the digest of the prepared data is not that of {whose}'s data."
        yield about.fails(Code.DATA_DIFFERS, told)
    if record.examples is not None and reference.examples is not None:
        yield from _check_same_examples(record.examples, reference.examples, about, whose)


def _check_same_examples(
    found: Examples, reference: Examples, about: Subject, whose: str
) -> Iterator[Reason]:
    if found.scores.shape[1] != reference.scores.shape[1]:
        told = f"{found.scores.shape[1]} classes, {whose} has {reference.scores.shape[1]}."
        yield about.fails(Code.EXAMPLES_CLASSES_DIFFER, told)
    if not _same_ids(found, reference):
        missing = len(np.setdiff1d(reference.ids, found.ids))
        extra = len(np.setdiff1d(found.ids, reference.ids))
        yield about.fails(
            Code.EXAMPLES_IDS_DIFFER,
            f"not {whose}'s validation examples: {missing} are missing and {extra} are others.",
            missing=missing,
            extra=extra,
        )
        return
    found = in_the_order_of(found, reference)
    differing = int(np.sum(found.labels != reference.labels))
    if differing:
        told = f"{differing} examples have another label than {whose}'s."
        yield about.fails(Code.EXAMPLES_LABELS_DIFFER, told, examples=differing)
    differing = _differing_targets(found.targets, reference.targets)
    if differing:
        told = f"the targets of {differing} examples are not {whose}'s."
        yield about.fails(Code.EXAMPLES_TARGETS_DIFFER, told, examples=differing)
    for column in sorted({*found.slices, *reference.slices}):
        if not same_column(found.slices.get(column), reference.slices.get(column)):
            told = f"column {clipped(column, 60)!r} of the examples' categories is not {whose}'s."
            yield about.fails(Code.EXAMPLES_SLICES_DIFFER, told)


def _differing_targets(found: FloatArray | None, reference: FloatArray | None) -> int:
    """How many targets differ by more than one of both was rounded to single precision."""
    if same_column(found, reference):
        return 0
    if found is None or reference is None:
        return len(found if found is not None else reference if reference is not None else ())
    return int(np.sum(np.abs(found - reference) > ROUNDED * np.abs(reference)))


def _same_ids(found: Examples, reference: Examples) -> bool:
    return same_column(found.ids, reference.ids) or np.array_equal(
        np.sort(found.ids), np.sort(reference.ids)
    )


def _sharing_a_job(records: Mapping[Replicate, EvidenceRecord]) -> dict[str, list[Replicate]]:
    return _shared({key: record.evidence.job for key, record in records.items()})


def _sharing_a_digest(
    records: Mapping[Replicate, EvidenceRecord], name: str
) -> dict[str, list[Replicate]]:
    digests = {key: record.evidence.digests.get(name) for key, record in records.items()}
    return _shared({key: digest for key, digest in digests.items() if digest})


def _shared(values: Mapping[Replicate, str]) -> dict[str, list[Replicate]]:
    holders: dict[str, list[Replicate]] = defaultdict(list)
    for replicate, value in values.items():
        holders[value].append(replicate)
    return {value: replicates for value, replicates in holders.items() if len(replicates) > 1}
