"""Parity in the verdict: is the compiled graph the same arithmetic as eager? Pure.

`compilegate.job.probes.parity` measures it, and `compilegate.job.evidence.parity` judges what one
job measured. Here is what several jobs of an arm come to, in words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from compilegate.gate.evidence import folder_name
from compilegate.gate.findings import (
    Code,
    Note,
    Number,
    Outcome,
    Reason,
    clipped,
    failure,
    undecided,
)
from compilegate.gate.settings import ParitySettings
from compilegate.gate.verdict import ParityJudgement
from compilegate.job.contract import REPRO_SCRIPT, REPROS_FOLDER
from compilegate.job.evidence import EvidenceRecord, ParityErrors
from compilegate.job.evidence.parity import (
    CANNOT_TELL_SINCE,
    EPSILON,
    ParityAnswer,
    ParityVerdict,
    Why,
    not_compared,
    parity_verdict,
)


def judge_parity(
    arm: str, records: Mapping[int, EvidenceRecord], settings: ParitySettings
) -> tuple[ParityJudgement | None, list[Reason | Note]]:
    """Judge the parity of a compiled arm by its readable replicates, by seed. Nothing comes back
    where there is none of them, or parity is not enabled."""
    if not settings.enabled or not records:
        return None, []
    judged = [_judge_replicate(seed, record, settings) for seed, record in records.items()]
    representative = min(judged, key=_rank)
    record = records[representative.seed]
    parity = record.evidence.parity
    if parity is not None and representative.answer is not ParityAnswer.PASS:
        place = f"{REPROS_FOLDER}/{folder_name(arm, representative.seed)}/{REPRO_SCRIPT}"
        departs = None if parity.departs is None else clipped(parity.departs, 1_000)
        repro = None if parity.repro is None else place
        representative = replace(representative, departs=departs, repro=repro)
    uncompared = None
    if parity is not None and record.parity is not None:
        uncompared = not_compared(parity, record.parity)
    return representative, [_finding(representative, judged, uncompared, settings)]


def _judge_replicate(
    seed: int, record: EvidenceRecord, settings: ParitySettings
) -> ParityJudgement:
    """Judge the parity that one job recorded, by the limit of the precision that it was measured
    in; the answer to what is missing is "cannot tell"."""
    parity, precision = record.evidence.parity, None
    if parity is None:
        why = "the job did not compare its steps with eager ones"
    else:
        precision = clipped(parity.precision, 40)
        why = clipped(parity.obstacle or "the record holds no errors")
        if parity.precision not in EPSILON:
            why = f"there are limits for {', '.join(EPSILON)}, not for {precision}"
        elif record.parity is not None:
            limit = settings.limit(precision)
            return _judge_errors(seed, record.parity, precision, limit, parity.reproduced)
    sentence = f"Parity cannot be judged: {why.rstrip('.')}."
    return ParityJudgement(ParityAnswer.CANNOT_TELL, sentence, seed, precision)


def _judge_errors(
    seed: int, errors: ParityErrors, precision: str, limit: float, reproduced: bool | None
) -> ParityJudgement:
    verdict = parity_verdict(errors, precision, limit, reproduced)
    worst = verdict.worst
    if worst is not None:
        worst = replace(worst, tensor=clipped(worst.tensor, 120))
    steps, tensors = errors.compiled.shape
    return ParityJudgement(
        answer=verdict.answer,
        sentence=_sentence(replace(verdict, worst=worst), precision, limit, steps),
        seed=seed,
        precision=precision,
        limit=limit,
        steps=steps,
        tensors=tensors,
        judged=verdict.judged,
        median_ratio=verdict.median_ratio,
        worst=worst,
    )


def _sentence(verdict: ParityVerdict, precision: str, limit: float, steps: int) -> str:
    worst = verdict.worst
    if worst is None:
        return f"Parity cannot be judged: {CANNOT_TELL_SINCE[verdict.why]}."
    if verdict.why is Why.NOT_FINITE:
        return (
            f"The compiled {worst.tensor} is NaN or infinite in step {worst.step}, eager's is not."
        )
    times = (
        f"the compiled {worst.tensor} has {worst.ratio:.3g} times the error that eager's rounding "
        f"explains (step {worst.step}; limit in {precision}: {limit:g})"
    )
    if verdict.why is Why.BEYOND:
        return f"The compiled arithmetic differs from eager's: {times}, in most steps."
    if verdict.why is Why.AT_TIMES:
        return (
            f"Parity cannot be judged: {times}, but in {verdict.exceeded} of {steps} steps only; "
            "rounding near a ReLU can cause this."
        )
    return (
        f"The compiled arithmetic matches eager's: over {steps} steps and {verdict.judged} tensors "
        f"it has at most {worst.ratio:.3g} times the error that eager's rounding explains; the "
        f"limit in {precision} is {limit:g}."
    )


def _rank(judgement: ParityJudgement) -> tuple[int, float]:
    """The lowest represents all replicates of an arm. Their compiled code is the same: one fail is
    enough, and what one replicate shows needs no other. Among equals, the largest ratio."""
    order = (ParityAnswer.FAIL, ParityAnswer.PASS, ParityAnswer.CANNOT_TELL)
    worst = judgement.worst
    ratio = math.inf if worst is None or worst.ratio is None else worst.ratio
    return order.index(judgement.answer), -ratio


def _in_full(judgement: ParityJudgement) -> str:
    """The judgement's sentence, with what departs first and the script that shows it."""
    sentence = judgement.sentence
    if judgement.departs is not None:
        sentence += f" {judgement.departs[:1].upper()}{judgement.departs[1:].rstrip('.')}."
    if judgement.repro is not None:
        sentence += f" {judgement.repro} shows it."
    return sentence


def _finding(
    judgement: ParityJudgement,
    judged: Sequence[ParityJudgement],
    uncompared: str | None,
    settings: ParitySettings,
) -> Reason | Note:
    """The statement of the verdict, from the judgement that represents all."""
    sentence = _in_full(judgement)
    if len(judged) > 1:
        sentence = f"Seed {judgement.seed}: {sentence}"
    numbers: dict[str, Number] = {"seed": judgement.seed}
    if judgement.worst is not None:
        numbers |= {"tensor": judgement.worst.tensor, "step": judgement.worst.step}
        numbers |= {"ratio": judgement.worst.ratio, "limit": judgement.limit}
    exceeded = False
    if judgement.answer is ParityAnswer.FAIL:
        return failure(Code.PARITY_DIFFERS, sentence, **numbers)
    if judgement.answer is ParityAnswer.PASS:
        if uncompared is None:
            return Reason(Code.PARITY_ALIKE, Outcome.PASS, sentence, numbers)
        sentence += f" {uncompared}"
    else:
        at_times = [each for each in judged if each.worst is not None]
        if len(at_times) == len(judged) > 1:
            sentence += " All seeds show it, which rounding does not: the compiled code is wrong."
            return failure(Code.PARITY_DIFFERS, sentence, **numbers)
        exceeded = bool(at_times)
    # What parity could not judge decides only where the workload requires it, or errors that exceed
    # the limit were seen.
    if settings.required:
        sentence += " Parity is required ([gate.parity])."
        return failure(Code.PARITY_CANNOT_TELL, sentence, **numbers)
    if exceeded:
        return undecided(Code.PARITY_CANNOT_TELL, sentence, **numbers)
    return Note(Code.PARITY_CANNOT_TELL, sentence, numbers)
