"""Parity in the verdict: is the compiled graph the same arithmetic as eager? Pure.

`compilegate.job.probes.parity` measures it, and `compilegate.job.evidence.parity` judges what one
job measured. Here is what several jobs of an arm come to, in words.
"""

from __future__ import annotations

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
from compilegate.job.evidence import EvidenceRecord
from compilegate.job.evidence.parity import (
    CANNOT_TELL_SINCE,
    EPSILON,
    ParityAnswer,
    ParityVerdict,
    Why,
    not_compared,
    parity_verdict,
)
from compilegate.job.names import REPRO_SCRIPT, REPROS_FOLDER


def judge_parity(
    arm: str, records: Mapping[int, EvidenceRecord], settings: ParitySettings
) -> tuple[ParityJudgement | None, list[Reason | Note]]:
    """Judge the parity of a compiled arm by its readable replicates, by seed.

    Nothing comes back where there is none of them, or the gate was told not to look.
    """
    if not settings.enabled or not records:
        return None, []
    judged = [judge_replicate(seed, record, settings) for seed, record in records.items()]
    spoken = _speaker(judged)
    found = records[spoken.seed].evidence.parity
    if found is not None and spoken.answer is not ParityAnswer.PASS:
        place = f"{REPROS_FOLDER}/{folder_name(arm, spoken.seed)}/{REPRO_SCRIPT}"
        departs = None if found.departs is None else clipped(found.departs)
        spoken = replace(spoken, departs=departs, repro=None if found.repro is None else place)
    return spoken, [_finding(spoken, judged, records, settings)]


def judge_replicate(seed: int, record: EvidenceRecord, settings: ParitySettings) -> ParityJudgement:
    """Judge the parity that one job recorded, by the limit of the precision that it was measured
    in; the answer to what is missing is "cannot tell"."""
    parity = record.evidence.parity
    if parity is None:
        return _silent(seed, "the job did not compare its steps with eager ones", None)
    precision = clipped(parity.precision, 40)
    if parity.precision not in EPSILON:
        known = ", ".join(EPSILON)
        return _silent(seed, f"there are limits for {known}, not for {precision}", precision)
    if record.parity is None:
        why = clipped(parity.obstacle or "the record holds no errors")
        return _silent(seed, why, precision)
    limit = settings.limit(precision)
    verdict = parity_verdict(record.parity, precision, limit, parity.reproduced)
    worst = verdict.worst
    if worst is not None:
        worst = replace(worst, tensor=clipped(worst.tensor, 120))
        verdict = replace(verdict, worst=worst)
    steps, tensors = record.parity.compiled.shape
    return ParityJudgement(
        answer=verdict.answer,
        sentence=_sentence(verdict, precision, limit, steps),
        seed=seed,
        precision=precision,
        limit=limit,
        steps=steps,
        tensors=tensors,
        judged=verdict.judged,
        median_ratio=verdict.median_ratio,
        worst=None if verdict.why in CANNOT_TELL_SINCE else worst,
    )


def _silent(seed: int, why: str, precision: str | None) -> ParityJudgement:
    sentence = f"Parity cannot be judged: {why.rstrip('.')}."
    return ParityJudgement(ParityAnswer.CANNOT_TELL, sentence, seed, precision)


def _sentence(verdict: ParityVerdict, precision: str, limit: float, steps: int) -> str:
    worst = verdict.worst
    if verdict.why in CANNOT_TELL_SINCE or worst is None:
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


def _speaker(judgements: Sequence[ParityJudgement]) -> ParityJudgement:
    """The judgement that represents all replicates of an arm. Their compiled code is the same: one
    fail is enough, and what one replicate shows needs no other. Among equals, the largest ratio."""
    order = (ParityAnswer.FAIL, ParityAnswer.PASS, ParityAnswer.CANNOT_TELL)

    def rank(judgement: ParityJudgement) -> tuple[int, float]:
        worst = judgement.worst
        ratio = float("inf") if worst is None or worst.ratio is None else worst.ratio
        return order.index(judgement.answer), -ratio

    return min(judgements, key=rank)


def _finding(
    spoken: ParityJudgement,
    judged: Sequence[ParityJudgement],
    records: Mapping[int, EvidenceRecord],
    settings: ParitySettings,
) -> Reason | Note:
    sentence = spoken.sentence
    if spoken.departs is not None:
        sentence += f" {spoken.departs[:1].upper()}{spoken.departs[1:].rstrip('.')}."
    if spoken.repro is not None:
        sentence += f" {spoken.repro} shows it."
    if len(judged) > 1:
        sentence = f"Seed {spoken.seed}: {sentence}"
    numbers = _numbers(spoken)
    if spoken.answer is ParityAnswer.FAIL:
        return failure(Code.PARITY_DIFFERS, sentence, **numbers)
    if spoken.answer is ParityAnswer.PASS:
        partly = _partly(spoken, records)
        if partly is None:
            return Reason(Code.PARITY_ALIKE, Outcome.PASS, sentence, numbers)
        return _unless_required(f"{sentence} {partly}", numbers, settings)
    at_times = [each for each in judged if each.worst is not None]
    if len(at_times) == len(judged) > 1:
        sentence += " All seeds show it, which rounding does not: the compiled code is wrong."
        return failure(Code.PARITY_DIFFERS, sentence, **numbers)
    return _unless_required(sentence, numbers, settings, open_=bool(at_times))


def _unless_required(
    sentence: str, numbers: Mapping[str, Number], settings: ParitySettings, *, open_: bool = False
) -> Reason | Note:
    """What parity could not judge decides only where the workload requires it, or errors that
    exceed the limit were seen."""
    if settings.required:
        sentence += " Parity is required ([gate.parity])."
        return failure(Code.PARITY_CANNOT_TELL, sentence, **numbers)
    if open_:
        return undecided(Code.PARITY_CANNOT_TELL, sentence, **numbers)
    return Note(Code.PARITY_CANNOT_TELL, sentence, numbers)


def _partly(spoken: ParityJudgement, records: Mapping[int, EvidenceRecord]) -> str | None:
    """What of the model was not compared."""
    record = records[spoken.seed]
    parity, errors = record.evidence.parity, record.parity
    return None if parity is None or errors is None else not_compared(parity, errors)


def _numbers(spoken: ParityJudgement) -> dict[str, Number]:
    numbers: dict[str, Number] = {"seed": spoken.seed}
    if spoken.worst is not None:
        numbers |= {"tensor": spoken.worst.tensor, "step": spoken.worst.step}
        numbers |= {"ratio": spoken.worst.ratio, "limit": spoken.limit}
    return numbers
