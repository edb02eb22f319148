"""Was parity measured at all? What a job's parity errors must show before they are judged.

Eager arithmetic in single precision is never exactly that of float64, its gradients included. So
errors that are zero everywhere were not measured. Compiled errors that are eager's to the last bit
are those of a compiler that computes the same bits, whose models are then the same as the
baseline's; where they are not, eager was compared with itself.

The job says how many of the parameters that it trains had a gradient that was compared, and digests
of what it compared. These differ from job to job, as the weights and batches do: equal ones are a
copy. Evidence of before has neither, which a note says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from compilegate.evidence import EvidenceRecord, ParityErrors, ParityRecord
from compilegate.gate.reasons import Code, Note, Outcome, Reason, clipped, failure
from compilegate.gate.settings import ParitySettings
from compilegate.job.evidence.ratios import EPSILON, WEAKEST, error_ratios, explained_errors

GRADIENT = "gradient of"
LEAST_STEPS = 4
"""Half of fewer is a single one."""
COVERED = 0.9
"""The share of the trained parameters that must have been compared."""
FAR = 1e5
"""Times the precision's epsilon that eager does not reach by rounding, or all of a tensor."""
UNLIKE = 0.01
"""The share of eager's error that a compiled one differs by which is not eager's."""
MOST_UNLIKE = 0.5
"""The share of the tensors that may be so: of few, as of biases before a normalisation, the
gradient is zero but for rounding."""
MAY_OVERFLOW = frozenset({"fp16"})
"""Precisions in which eager's gradients may be infinite until the loss is scaled."""


def doubts_of_parity(
    records: Mapping[int, EvidenceRecord], settings: ParitySettings, *, same_bits: bool
) -> list[Reason | Note]:
    """Why what an arm's jobs recorded, by seed, does not show parity; the first of what is found.

    `same_bits`: whether a model of the arm has the outputs of the baseline's to the last bit.
    """
    found = (
        doubt
        for seed, record in records.items()
        for doubt in _doubts(seed, record, settings, same_bits=same_bits)
    )
    first: list[Reason | Note] = list(islice(found, 1))
    if settings.enabled and not first:
        first = list(islice(_contradictory_digests(records), 1))
    if settings.enabled and not first:
        first = [*_copies(records), *_unknown_coverage(records, settings)]
    return first[:1]


def _copies(records: Mapping[int, EvidenceRecord]) -> Iterator[Reason]:
    """Two jobs that compared the same tensors."""
    seen: dict[str, int] = {}
    for seed, record in records.items():
        parity = record.evidence.parity
        digest = None if parity is None else parity.compared.get("exact")
        if digest is not None and seen.setdefault(digest, seed) != seed:
            told = (
                f"Seed {seed}: parity compared the very tensors of seed {seen[digest]}. Two seeds "
                "have no weights in common: one record was copied, or the seed is not used."
            )
            yield failure(Code.PARITY_OF_ANOTHER, told, seed=seed, other_seed=seen[digest])


def _contradictory_digests(records: Mapping[int, EvidenceRecord]) -> Iterator[Reason]:
    """Digests that say that two steps are equal, beside errors that say that they are not."""
    for seed, record in records.items():
        parity, errors = record.evidence.parity, record.parity
        if parity is None or errors is None:
            continue
        exact, compiled, eager = (
            parity.compared.get(name) for name in ("exact", "compiled", "eager")
        )
        equal = exact is not None and exact in (compiled, eager)
        if compiled is not None and compiled == eager:
            with np.errstate(invalid="ignore"):
                apart = np.abs(errors.compiled - errors.eager) > UNLIKE * errors.eager
            equal |= bool(apart.all())
        if equal:
            told = (
                f"Seed {seed}: by their digests the tensors that parity compared are the same, and "
                "by their errors they are not: these are of something else."
            )
            yield failure(Code.PARITY_NOT_MEASURED, told, seed=seed)


def _unknown_coverage(
    records: Mapping[int, EvidenceRecord], settings: ParitySettings
) -> Iterator[Reason | Note]:
    measured = {
        seed: record.evidence.parity
        for seed, record in records.items()
        if record.evidence.parity is not None and record.parity is not None
    }
    silent = [seed for seed, each in measured.items() if each.trained_parameters is None]
    if not silent:
        return
    told = (
        "The evidence does not say how many of the trained parameters parity was measured on (seed "
        f"{', '.join(map(str, silent))})."
    )
    if settings.required:
        told += " The workload requires parity."
        yield Reason(Code.PARITY_COVERAGE_UNKNOWN, Outcome.INCONCLUSIVE, told)
    else:
        yield Note(Code.PARITY_COVERAGE_UNKNOWN, told)


def _doubts(
    seed: int, record: EvidenceRecord, settings: ParitySettings, *, same_bits: bool
) -> Iterator[Reason]:
    errors, evidence = record.parity, record.evidence
    if not settings.enabled or errors is None or evidence.parity is None:
        return
    found = _not_measured(errors, same_bits=same_bits)
    if found is not None:
        outcome, told = found
        yield Reason(Code.PARITY_NOT_MEASURED, outcome, f"Seed {seed}: {told}", {"seed": seed})
        return
    broken = ~np.isfinite(errors.eager)
    if broken.any() and evidence.parity.precision not in MAY_OVERFLOW:
        name = clipped(str(errors.tensors[int(np.argwhere(broken)[0][1])]), 120)
        told = (
            f"Seed {seed}: eager itself is not finite in the {name}, and the training's losses "
            "are: what was compared is not what trained."
        )
        yield Reason(Code.PARITY_NOT_MEASURED, Outcome.INCONCLUSIVE, told, {"seed": seed})
    names = errors.tensors.tolist()
    if len(names) < 2 or not any(name.startswith(GRADIENT) for name in names):
        told = (
            f"Seed {seed}: parity was measured on {len(names)} tensors without a gradient of any "
            "parameter: nothing shows that the compiled backward pass is eager's."
        )
        yield Reason(Code.PARITY_PARTIAL, Outcome.INCONCLUSIVE, told, {"tensors": len(names)})
        return
    yield from _too_little(seed, evidence.parity)
    if _is_beyond_rounding(errors, evidence.parity.precision, settings):
        told = (
            f"Seed {seed}: eager is off by {float(np.median(errors.eager)):.2g} against float64, "
            "more than rounding explains, and the compiled step by another amount. Two steps that "
            "drew the same random numbers would be off alike: what was compared are not these."
        )
        yield Reason(Code.PARITY_BEYOND_ROUNDING, Outcome.INCONCLUSIVE, told, {"seed": seed})
    if _half_exceeds(errors, evidence.parity.precision, settings):
        told = (
            f"Seed {seed}: the compiled arithmetic is beyond the limit in half of the steps, "
            "of one tensor. Rounding at a kink does that to single steps."
        )
        yield Reason(Code.PARITY_CANNOT_TELL, Outcome.INCONCLUSIVE, told, {"seed": seed})


def _too_little(seed: int, parity: ParityRecord) -> Iterator[Reason]:
    trained, compared = parity.trained_parameters, parity.compared_parameters
    if trained is None or compared is None or 0 < COVERED * trained <= compared <= trained:
        return
    told = (
        f"Seed {seed}: parity was measured on {compared:,} of {trained:,} trained parameters: "
        "nothing shows what the compiler makes of the others."
    )
    numbers = {"seed": seed, "compared": compared, "trained": trained}
    yield Reason(Code.PARITY_PARTIAL, Outcome.INCONCLUSIVE, told, numbers)


def _is_beyond_rounding(errors: ParityErrors, precision: str, settings: ParitySettings) -> bool:
    """Whether half of the tensors have errors too large to judge by, and compiled ones that are
    not eager's.

    Where float64 draws other random numbers, both are as far from it, since compiled and eager
    draw the same: by the triangle inequality their errors differ by no more than they do. Where
    they differ, and no rounding is that large, something else than the two was compared.
    """
    if precision not in EPSILON:
        return False
    far = max(WEAKEST / settings.limit(precision), min(FAR * EPSILON[precision], 1.0))
    shown = explained_errors(errors, precision) <= far
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(errors.compiled - errors.eager) > UNLIKE * errors.eager
    others = np.median(apart, axis=0) > 0.5
    return bool((~shown & others).mean() >= MOST_UNLIKE)


def _half_exceeds(errors: ParityErrors, precision: str, settings: ParitySettings) -> bool:
    """Whether one tensor exceeds the limit in just half of the steps, and in two or more. In more
    than half it fails already (`parity.judge_parity`)."""
    if precision not in EPSILON or len(errors.compiled) < LEAST_STEPS:
        return False
    limit = settings.limit(precision)
    judged = explained_errors(errors, precision) <= WEAKEST / limit
    beyond = (error_ratios(errors, precision) > limit) & judged
    return bool((2 * beyond.sum(axis=0) == len(beyond)).any())


def _not_measured(errors: ParityErrors, *, same_bits: bool) -> tuple[Outcome, str] | None:
    if not errors.eager.any():
        told = "all of eager's parity errors are zero, which no arithmetic but float64 has: they "
        return Outcome.FAIL, f"{told}were not measured."
    if not errors.compiled.any():
        told = "all compiled parity errors are zero, which no arithmetic but float64 has: they "
        return Outcome.FAIL, f"{told}were not measured."
    if (errors.eager < 0.0).any() or (errors.compiled < 0.0).any():
        return Outcome.FAIL, "parity errors are below zero, and no distance is."
    if same_bits or not np.array_equal(errors.compiled, errors.eager, equal_nan=True):
        return None
    told = (
        "the compiled parity errors are eager's to the last bit, and the models are not: eager was "
        "compared with itself."
    )
    return Outcome.INCONCLUSIVE, told
