"""Parity: is the compiled graph the same arithmetic as eager? Pure.

`compilegate.job.probes.parity` measures it; the arithmetic that job and gate share is in `ratios`.

No program is exact, so the question is not whether compiled and eager agree. It is whether the
compiled step errs more against float64 than eager's own rounding explains. That makes a limit which
holds for models of any size and scale: it is a multiple of eager's own error, tensor by tensor and
step by step. docs/parity.md shows where the limits come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from compilegate.evidence import EvidenceRecord, FloatArray, ParityErrors, folder_name
from compilegate.gate.judgements import ParityAnswer, ParityJudgement, WorstTensor
from compilegate.gate.reasons import Code, Note, Number, Outcome, Reason, clipped
from compilegate.gate.settings import ParitySettings
from compilegate.job.evidence.ratios import (
    EPSILON,
    REPEAT_LIMIT,
    WEAKEST,
    error_ratios,
    explained_errors,
    lasting,
)
from compilegate.job.names import REPRO_SCRIPT, REPROS_FOLDER

NEEDED_SHARE = 0.9
"""The share of the tensors that must show something."""


def judge_parity(
    arm: str, records: Mapping[int, EvidenceRecord], settings: ParitySettings
) -> tuple[ParityJudgement | None, Reason | Note | None]:
    """Judge the parity of a compiled arm by its readable replicates, by seed.

    Nothing comes back where there is none of them, or the gate was told not to look.
    """
    if not settings.enabled or not records:
        return None, None
    judged = [judge_replicate(seed, record, settings) for seed, record in records.items()]
    spoken = speaker(judged)
    spoken = _with_what_departs(spoken, arm, records[spoken.seed])
    return spoken, _finding(spoken, judged, settings)


def judge_replicate(seed: int, record: EvidenceRecord, settings: ParitySettings) -> ParityJudgement:
    """Judge the parity that one job recorded, by the limit of the precision that it was measured
    in; the answer to what is missing is "cannot tell". Whether that precision is the declared one
    is asked elsewhere (`integrity.precision`)."""
    parity = record.evidence.parity
    if parity is None:
        return _silent(seed, "the job did not compare its steps with eager ones", None)
    precision = clipped(parity.precision, 40)
    if parity.precision not in EPSILON:
        *others, last = EPSILON
        known = f"{', '.join(others)} and {last}"
        return _silent(seed, f"there are limits for {known}, not for {precision}", precision)
    if record.parity is None:
        why = clipped(parity.obstacle or "the record holds no errors")
        return _silent(seed, why, precision)
    return _judge_errors(seed, _compare(record.parity, precision, settings.limit(precision)))


def _with_what_departs(
    judgement: ParityJudgement, arm: str, record: EvidenceRecord
) -> ParityJudgement:
    """The judgement with what the job found out about a difference."""
    found = record.evidence.parity
    if found is None or judgement.answer is ParityAnswer.PASS:
        return judgement
    place = f"{REPROS_FOLDER}/{folder_name(arm, judgement.seed)}/{REPRO_SCRIPT}"
    return replace(
        judgement,
        departs=None if found.departs is None else clipped(found.departs),
        repro=None if found.repro is None else place,
    )


def speaker(judgements: Iterable[ParityJudgement]) -> ParityJudgement:
    """The judgement that represents all replicates of an arm; there is at least one.

    Their compiled code is the same. So one fail is enough, and what one replicate shows needs no
    other: "cannot tell" is the answer only when it is everyone's. Among equals, the largest ratio.
    """
    order = (ParityAnswer.FAIL, ParityAnswer.PASS, ParityAnswer.CANNOT_TELL)

    def rank(judgement: ParityJudgement) -> tuple[int, float]:
        worst = judgement.worst
        ratio = np.inf if worst is None or worst.ratio is None else worst.ratio
        return order.index(judgement.answer), -ratio

    return min(judgements, key=rank)


@dataclass(frozen=True)
class _Comparison:
    errors: ParityErrors
    precision: str
    limit: float
    explained: FloatArray
    """(tensors,) the error that eager's rounding explains."""
    ratios: FloatArray
    """(steps, tensors)"""
    judged: npt.NDArray[np.bool_]
    """(tensors,) which of them show something."""

    def at(self, step: int, tensor: int) -> WorstTensor:
        """This tensor in this step, as the worst."""
        return WorstTensor(
            tensor=self.name(tensor),
            step=step,
            ratio=_finite(self.ratios[step, tensor]),
            compiled_error=_finite(self.errors.compiled[step, tensor]),
            eager_error=float(self.errors.eager[step, tensor]),
        )

    def name(self, tensor: int) -> str:
        """A tensor's name, fit for a sentence."""
        return clipped(str(self.errors.tensors[tensor]), 120)


def _compare(errors: ParityErrors, precision: str, limit: float) -> _Comparison:
    explained = explained_errors(errors, precision)
    return _Comparison(
        errors=errors,
        precision=precision,
        limit=limit,
        explained=explained,
        ratios=error_ratios(errors, precision),
        judged=explained <= WEAKEST / limit,
    )


def _judge_errors(seed: int, comparison: _Comparison) -> ParityJudgement:
    ratios, judged = comparison.ratios, comparison.judged
    answer, sentence, worst = (
        _unusable_reference(comparison) or _not_finite(comparison) or _by_ratio(comparison)
    )
    return ParityJudgement(
        answer=answer,
        sentence=sentence,
        seed=seed,
        precision=comparison.precision,
        limit=comparison.limit,
        steps=len(ratios),
        tensors=len(judged),
        judged=int(judged.sum()),
        median_ratio=_finite(np.median(ratios[:, judged])) if judged.any() else None,
        worst=worst,
    )


_Answer = tuple[ParityAnswer, str, WorstTensor | None]


def _unusable_reference(comparison: _Comparison) -> _Answer | None:
    errors = comparison.errors
    unsteady = ~(errors.repeated / REPEAT_LIMIT <= comparison.explained)
    if not np.isfinite(errors.eager).all():
        step, tensor = _first(~np.isfinite(errors.eager))
        found = f"eager itself is not finite in the {comparison.name(tensor)} in step {step}"
    elif unsteady.any():
        step, tensor = _first(unsteady)
        found = (
            f"two eager runs of step {step} differ by {errors.repeated[step, tensor]:.1e} in the "
            f"{comparison.name(tensor)}"
        )
    else:
        return None
    sentence = f"Parity cannot tell: {found}, so that nothing can be measured against it."
    return ParityAnswer.CANNOT_TELL, sentence, None


def _not_finite(comparison: _Comparison) -> _Answer | None:
    broken = ~np.isfinite(comparison.ratios)
    if not broken.any():
        return None
    worst = comparison.at(*_first(broken))
    sentence = (
        f"The compiled {worst.tensor} is beyond all numbers in step {worst.step}, and eager's is "
        "not: the compiler does not compute what eager does."
    )
    return ParityAnswer.FAIL, sentence, worst


def _by_ratio(comparison: _Comparison) -> _Answer:
    limit, judged = comparison.limit, comparison.judged
    ratios = np.where(judged, comparison.ratios, 0.0)
    if (lasting(ratios) > limit).any():
        tensor = int(lasting(ratios).argmax())
        worst = comparison.at(int(ratios[:, tensor].argmax()), tensor)
        return ParityAnswer.FAIL, _errs_more(comparison, worst), worst
    if judged.mean() < NEEDED_SHARE:
        return ParityAnswer.CANNOT_TELL, _too_coarse(judged), None
    worst = comparison.at(*_first(ratios == ratios.max()))
    if ratios.max() > limit:
        exceeded = int((ratios > limit).any(axis=1).sum())
        return ParityAnswer.CANNOT_TELL, _errs_at_times(comparison, worst, exceeded), worst
    return ParityAnswer.PASS, _errs_alike(comparison, worst), worst


def _silent(seed: int, why: str, precision: str | None) -> ParityJudgement:
    sentence = f"Parity cannot tell: {why.rstrip('.')}."
    return ParityJudgement(ParityAnswer.CANNOT_TELL, sentence, seed, precision)


def _finding(
    judgement: ParityJudgement, replicates: Sequence[ParityJudgement], settings: ParitySettings
) -> Reason | Note:
    sentence = judgement.sentence
    if judgement.departs is not None:
        departs = judgement.departs.rstrip(".")
        sentence = f"{sentence} {departs[:1].upper()}{departs[1:]}."
    if judgement.repro is not None:
        sentence = f"{sentence} See it by itself: {judgement.repro}."
    if len(replicates) > 1:
        sentence = f"Seed {judgement.seed} (of {len(replicates)} measured): {sentence}"
    silent = [each.seed for each in replicates if each.answer is ParityAnswer.CANNOT_TELL]
    if 0 < len(silent) < len(replicates):
        sentence = f"{sentence} Parity cannot tell for seed {', '.join(map(str, silent))}."
    numbers = _numbers(judgement)
    if judgement.answer is ParityAnswer.PASS:
        return Reason(Code.PARITY_ALIKE, Outcome.PASS, sentence, numbers)
    if judgement.answer is ParityAnswer.FAIL:
        return Reason(Code.PARITY_DIFFERS, Outcome.FAIL, sentence, numbers)
    at_times = [each for each in replicates if each.answer is ParityAnswer.CANNOT_TELL]
    at_times = [each for each in at_times if each.worst is not None]
    if len(at_times) == len(replicates) > 1:
        sentence = (
            f"{sentence} All {len(replicates)} seeds show it, which no kink does: the compiled "
            "code is wrong for some batches."
        )
        return Reason(Code.PARITY_DIFFERS, Outcome.FAIL, sentence, numbers)
    if settings.required:
        sentence = f"{sentence} The workload requires parity."
        return Reason(Code.PARITY_CANNOT_TELL, Outcome.FAIL, sentence, numbers)
    if at_times:
        return Reason(Code.PARITY_CANNOT_TELL, Outcome.INCONCLUSIVE, sentence, numbers)
    return Note(Code.PARITY_CANNOT_TELL, sentence, numbers)


def _numbers(judgement: ParityJudgement) -> dict[str, Number]:
    numbers: dict[str, Number] = {"seed": judgement.seed}
    if judgement.worst is not None:
        numbers |= {
            "tensor": judgement.worst.tensor,
            "step": judgement.worst.step,
            "ratio": judgement.worst.ratio,
            "limit": judgement.limit,
        }
    return numbers


def _errs_more(comparison: _Comparison, worst: WorstTensor) -> str:
    return (
        f"The {_in_numbers(worst)}, and beyond the limit in most steps ({comparison.precision}: "
        f"{comparison.limit:g} times): the compiler does not compute what eager does."
    )


def _errs_at_times(comparison: _Comparison, worst: WorstTensor, exceeded: int) -> str:
    return (
        f"Parity cannot tell: the {_in_numbers(worst)}, beyond the limit of {comparison.limit:g} "
        f"times, but no tensor exceeds it in most of the {len(comparison.ratios)} steps (but in "
        f"{exceeded}): the cause may be rounding at a kink (ReLU, a maximum), or code that is "
        "wrong for some batches."
    )


def _in_numbers(worst: WorstTensor) -> str:
    return (
        f"error of the compiled {worst.tensor} in step {worst.step} is {worst.ratio:.3g} times "
        f"what eager's rounding explains ({worst.compiled_error:.1e} against float64, eager "
        f"{worst.eager_error:.1e})"
    )


def _too_coarse(judged: npt.NDArray[np.bool_]) -> str:
    return (
        f"Parity cannot tell: eager itself is close enough to float64 in only {judged.sum()} of "
        f"{len(judged)} tensors; the others would hide an error of half their size. Either "
        "float64 draws other random numbers (dropout), or the model amplifies rounding."
    )


def _errs_alike(comparison: _Comparison, worst: WorstTensor) -> str:
    return (
        f"The compiled arithmetic matches eager's: over {len(comparison.ratios)} steps and "
        f"{comparison.judged.sum()} tensors its error is at most {worst.ratio:.3g} times what "
        f"eager's rounding explains ({worst.tensor}, step {worst.step}); the limit in "
        f"{comparison.precision} is {comparison.limit:g} times."
    )


def _first(found: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """The first (step, tensor) that was found."""
    step, tensor = np.argwhere(found)[0]
    return int(step), int(tensor)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
