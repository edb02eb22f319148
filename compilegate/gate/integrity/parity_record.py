"""Was parity measured at all? What a job's parity errors must show before they are judged.

Eager arithmetic in single precision is never exactly that of float64, its gradients included. So
errors that are zero everywhere were not measured. Compiled errors that are eager's to the last bit
are those of a compiler that computes the same bits, whose models are then the same as the
baseline's; where they are not, eager was compared with itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from compilegate.evidence import EvidenceRecord, ParityErrors
from compilegate.gate.reasons import Code, Outcome, Reason, clipped
from compilegate.gate.settings import ParitySettings

GRADIENT = "gradient of"
MAY_OVERFLOW = frozenset({"fp16"})
"""Precisions in which eager's gradients may be infinite until the loss is scaled."""


def doubts_of_parity(
    records: Mapping[int, EvidenceRecord], settings: ParitySettings, *, same_bits: bool
) -> list[Reason]:
    """Why what an arm's jobs recorded, by seed, does not show parity; the first of what is found.

    `same_bits`: whether a model of the arm has the outputs of the baseline's to the last bit.
    """
    found = (
        doubt
        for seed, record in records.items()
        for doubt in _doubts(seed, record, settings, same_bits=same_bits)
    )
    return list(islice(found, 1))


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


def _not_measured(errors: ParityErrors, *, same_bits: bool) -> tuple[Outcome, str] | None:
    if not errors.eager.any():
        told = "all of eager's parity errors are zero, which no arithmetic but float64 has: they "
        return Outcome.FAIL, f"{told}were not measured."
    if same_bits or not np.array_equal(errors.compiled, errors.eager, equal_nan=True):
        return None
    told = (
        "the compiled parity errors are eager's to the last bit, and the models are not: eager was "
        "compared with itself."
    )
    return Outcome.INCONCLUSIVE, told
