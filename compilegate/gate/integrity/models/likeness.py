"""Likeness: are the models of several replicates several models?

Other seeds end with other weights, and so with other outputs. Replicates whose outputs are alike to
the last bit, or but for a little noise, are one model under several names: a seed that was ignored,
another job's checkpoint that was evaluated, a copy.

Between arms, one likeness is honest: a compiler that computes what eager does to the last bit ends,
for the same seed, with the same weights. Then the model is the same, too, and so are the losses of
all steps. What shows that both trained is in the compiler's proof and in the steps' times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from compilegate.evidence import EvidenceRecord, Examples, FloatArray, Replicate
from compilegate.evidence.rows import same_column
from compilegate.gate.integrity.agreement import same_course
from compilegate.gate.reasons import Code, Outcome, Reason, Subject

MOST_ROWS = 2000
"""Rows that are compared, evenly over the examples: alike are all, or none."""
SAME = 1e-6
"""What two models of other seeds differ by at least, as a share of the outputs' spread."""
UNLIKELY = 0.01
"""The share of what two seeds usually differ by, under which two are no two seeds."""
NOISE = 1e-8
"""The share of the outputs' spread that no rounding of single precision is as small as."""
LEAST_SPREAD = 1e-12
CLOSE = 0.2
"""The share of what the baseline's seeds differ by, under which a candidate's are too close."""
ROWS_COPIED = 20
SHARE_COPIED = 0.05
"""Rows with equal outputs, and their share of all, that two trainings do not have by chance."""
SATURATED = 1e-4
"""How near to 0 or 1 scores are that many models agree on."""
TELLING = 0.95
"""The share of outputs that occur once where they have digits enough to tell rows apart by."""
FEW = 50
"""Different answers. Models that have so few agree by chance where there are few examples."""
DECIMALS = 6
ROWS_TO_TELL = 1000
"""Examples from which on two models with few answers do not agree on all by chance."""
ERRORS_TO_TELL = 10
"""Examples that both get wrong, and in the same way: nobody errs alike so often by chance."""


def find_likeness(
    records: Mapping[Replicate, EvidenceRecord], baseline: str
) -> dict[Replicate, list[Reason]]:
    """By replicate, whose model it has. Records that were not scored on the same rows as the first
    one say nothing. Between a candidate and the baseline, the candidate is to blame."""
    found: dict[Replicate, list[Reason]] = defaultdict(list)
    outputs = dict(_outputs(records))
    tell = {replicate for replicate in outputs if _tells(records[replicate], outputs[replicate])}
    distances = {
        (one, other): _distance(outputs[one], outputs[other])
        for one, other in combinations(outputs, 2)
        if one in tell and other in tell
    }
    of_seeds = [distance for (one, other), distance in distances.items() if one[1] != other[1]]
    usual = float(np.median(of_seeds)) if of_seeds else 0.0
    for (one, other), distance in distances.items():
        if one[1] != other[1]:
            alike = distance <= max(SAME, UNLIKELY * usual)
        else:
            alike = one[0] != other[0] and _is_a_copy(records, one, other, distance, usual)
        if not alike:
            continue
        for of, whose in ((one, other), (other, one)):
            if of[0] != baseline or whose[0] == baseline:
                found[of].append(_alike(of, whose, distance))
    for one, other in distances:
        copied = _rows_copied(outputs[one], outputs[other])
        if copied and not found.keys() & {one, other}:
            of, whose = (other, one) if one[0] == baseline else (one, other)
            found[of].append(_partly_alike(of, whose, copied, len(outputs[of])))
    return {replicate: reasons[:1] for replicate, reasons in found.items()}


def seeds_too_close(
    records: Mapping[Replicate, EvidenceRecord], baseline: str, arm: str
) -> Iterator[Reason]:
    """A doubt of a candidate with the baseline's recipe whose seeds end with nearly one model,
    while the baseline's do not: a seed that is not used leaves only the noise of a device."""
    outputs = {
        replicate: found
        for replicate, found in _outputs(records)
        if _tells(records[replicate], found)
    }
    usual, own = (
        [
            _distance(outputs[one], outputs[other])
            for one, other in combinations(outputs, 2)
            if one[0] == other[0] == of
        ]
        for of in (baseline, arm)
    )
    if not usual or not own or not max(own) < CLOSE * min(usual):
        return
    share = float(np.median(own)) / float(np.median(usual))
    yield Reason(
        Code.MODEL_SEEDS_CLOSE,
        Outcome.INCONCLUSIVE,
        f"The outputs of the candidate's seeds differ by {share:.1%} of what the baseline's differ "
        "by: see whether its program uses the seed, or averages models.",
        {"share": share},
    )


def _alike(of: Replicate, whose: Replicate, distance: float) -> Reason:
    within = "" if distance == 0.0 else " but for noise that no rounding is as small as"
    if of[0] == whose[0]:
        return Subject(of[1]).fails(
            Code.MODEL_SEEDS_ALIKE,
            f"the outputs are those of seed {whose[1]}{within}. Two seeds do not end with one "
            "model: see whether the program uses its seed.",
            other_seed=whose[1],
        )
    return Subject(of[1]).fails(
        Code.MODEL_OUTPUTS_OF_ANOTHER,
        f"the outputs are those of {whose[0]!r}, seed {whose[1]}{within}, and the model is "
        "another: see which checkpoint was evaluated.",
        other_arm=whose[0],
        other_seed=whose[1],
    )


def _partly_alike(of: Replicate, whose: Replicate, copied: int, rows: int) -> Reason:
    return Subject(of[1]).fails(
        Code.MODEL_OUTPUTS_OF_ANOTHER,
        f"the outputs of {copied:,} of {rows:,} examples are those of {whose[0]!r}, seed "
        f"{whose[1]}, to the last bit, and the others are not: part of them was copied.",
        other_arm=whose[0],
        other_seed=whose[1],
    )


def _rows_copied(one: FloatArray, other: FloatArray) -> int:
    """How many rows two different models have in common that they cannot have by chance; zero where
    outputs have too few digits, or all are equal."""
    if one.shape != other.shape:
        return 0
    told = ((one > SATURATED) & (one < 1.0 - SATURATED)).all(axis=1) if one.shape[1] > 1 else True
    same = (one == other).all(axis=1) & told & (np.abs(one).max(axis=1) > 0.0)
    copied = int(same.sum())
    if copied < max(ROWS_COPIED, SHARE_COPIED * len(one)) or copied == len(one):
        return 0
    values = np.concatenate([one, other])[:, 0]
    once = len(np.unique(values)) / (len(values) - copied)
    apart = np.abs(one - other)[~same]
    fine = float(np.median(apart[apart > 0.0])) if apart.any() else 0.0
    distinct = len(np.unique(one[same], axis=0)) >= TELLING * copied
    return copied if once >= TELLING and distinct and fine > SAME * float(np.ptp(values)) else 0


def _is_a_copy(
    records: Mapping[Replicate, EvidenceRecord],
    one: Replicate,
    other: Replicate,
    distance: float,
    usual: float,
) -> bool:
    """Whether two arms have one model for one seed, and not by computing the same: models that are
    nearly equal in the end had nearly the same losses on the way."""
    if distance > NOISE:
        close = distance <= UNLIKELY * usual
        return close and not same_course(records[one], records[other])
    models = [records[each].evidence.digests.get("model") for each in (one, other)]
    return models[0] != models[1]


def _outputs(records: Mapping[Replicate, EvidenceRecord]) -> Iterator[tuple[Replicate, FloatArray]]:
    """By replicate, the outputs on the same rows; what has none, or other rows, is left out."""
    first: Examples | None = None
    for replicate, record in records.items():
        examples = record.examples
        if examples is None or len(examples.ids) < 2:
            continue
        first = first or examples
        if not same_column(examples.ids, first.ids):
            continue
        outputs = _columns(examples)
        if outputs.shape[0] and np.isfinite(outputs).all():
            yield replicate, outputs


def _columns(examples: Examples) -> FloatArray:
    rows = np.linspace(0, len(examples.ids) - 1, min(len(examples.ids), MOST_ROWS)).astype(np.int64)
    if examples.predictions is not None:
        return examples.predictions[rows, None]
    if examples.scores.shape[1]:
        return examples.scores[rows]
    return examples.losses[rows, None]


def _tells(record: EvidenceRecord, outputs: FloatArray) -> bool:
    """Whether equal outputs mean one model. Where answers are few they may be agreement."""
    examples = record.examples
    if len(np.unique(outputs.round(DECIMALS), axis=0)) > FEW:
        return True
    if examples is None or len(examples.ids) < ROWS_TO_TELL or not examples.scores.shape[1]:
        return False
    wrong = examples.scores.argmax(axis=1) != examples.labels
    return int(wrong.sum()) >= ERRORS_TO_TELL


def _distance(one: FloatArray, other: FloatArray) -> float:
    """The root mean square of the differences, over the spread of the outputs."""
    if one.shape != other.shape:
        return np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        apart = float(np.sqrt(np.mean((one - other) ** 2)))
        spread = float(np.std(np.concatenate([one, other]), axis=0).max())
    return apart / max(spread, LEAST_SPREAD) if np.isfinite(apart) else np.inf
