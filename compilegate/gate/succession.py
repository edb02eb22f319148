"""The gate of a workload that has a champion: is the new model no worse than the registered one?

The champion is one fixed model, and the challenger's replicates are what the same program makes of
today's data with several seeds. Every replicate is held against the champion on the same examples,
so that the question is the one about an arm (see `noninferiority`): whether models like the new
one, and not just one lucky seed, are as good to within the margins. Speed is not asked about:
nothing was compiled. Pure.

Decided is one of `challenger` (register the new model), `champion` (the registered one stands) and
`none` (there is neither).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from compilegate.evidence import EvidenceError, EvidenceRecord, Examples, outputs_digest
from compilegate.evidence.rows import in_the_order_of
from compilegate.gate.experiment import SuccessionExperiment
from compilegate.gate.integrity.agreement import (
    Replicate,
    check_agreement,
    check_same_examples,
    find_duplicates,
)
from compilegate.gate.integrity.examination import Records
from compilegate.gate.integrity.examples import check_columns
from compilegate.gate.integrity.expectation import Expectation
from compilegate.gate.integrity.replicate import check_record, unusable
from compilegate.gate.judge import judge_quality, replicates_of
from compilegate.gate.quality.metrics import MetricUndefinedError, metric_value
from compilegate.gate.quality.quality import Replicates, compare_arms
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
from compilegate.gate.settings import NO_ARM, GateSettings
from compilegate.gate.verdict import (
    BaselineVerdict,
    CandidateVerdict,
    Decision,
    MetricJudgement,
    Verdict,
)

CHALLENGER = "challenger"
CHAMPION = "champion"

Champion = Examples | EvidenceError | None
"""What the registered model says of the validation examples; the error that reading it met; None
where no model was registered yet."""


@dataclass
class _Judged:
    """What is known of the challenger."""

    reasons: list[Reason] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    metrics: list[MetricJudgement] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        return worst(reason.outcome for reason in self.reasons)


def judge_succession(
    experiment: SuccessionExperiment,
    records: Records,
    jobs: Mapping[Replicate, str] | None,
    champion: Champion,
) -> Verdict:
    """The verdict on the new model.

    `records` holds the evidence of each (CHALLENGER, seed), or the error that reading it met;
    `jobs` the training job that each must be of.
    """
    sound, problems = _examine(experiment, records, jobs)
    judged = _Judged(reasons=problems)
    if not problems:
        _compare(experiment.settings, sound, champion, judged)
    seed = experiment.seeds[0]
    return Verdict(
        workload=experiment.workload,
        seeds=tuple(experiment.seeds),
        confidence=experiment.settings.confidence,
        decision=_decide(judged, champion, seed),
        baseline=BaselineVerdict(CHAMPION, sound=True, reasons=(), noise_floor=()),
        candidates=(
            CandidateVerdict(
                arm=CHALLENGER,
                outcome=judged.outcome,
                reasons=gravest_first(judged.reasons),
                metrics=tuple(judged.metrics),
                speed=None,
                confounds=(),
                confidence=experiment.settings.confidence,
                notes=tuple(judged.notes),
            ),
        ),
    )


def _examine(
    experiment: SuccessionExperiment, records: Records, jobs: Mapping[Replicate, str] | None
) -> tuple[list[EvidenceRecord], list[Reason]]:
    """The records in the order of the seeds, with the same rows; and all that is wrong."""
    problems: list[Reason] = []
    readable: dict[Replicate, EvidenceRecord] = {}
    for seed in experiment.seeds:
        record = records.get((CHALLENGER, seed))
        if record is None or isinstance(record, EvidenceError):
            problems.append(unusable(seed, record))
            continue
        job = None if jobs is None else jobs.get((CHALLENGER, seed), "")
        expected = Expectation(CHALLENGER, seed, None, experiment.settings, job)
        problems += check_record(record, expected)
        readable[CHALLENGER, seed] = record
    for reasons in find_duplicates(readable, CHAMPION).values():
        problems += reasons
    if problems:
        return [], problems
    first, *others = readable.items()
    for (_, seed), record in others:
        problems += check_agreement(record, first[1], seed)
    if problems:
        return [], problems
    return [_aligned(record, first[1]) for record in readable.values()], []


def _aligned(record: EvidenceRecord, reference: EvidenceRecord) -> EvidenceRecord:
    if record.examples is None or reference.examples is None:
        return record
    return replace(record, examples=in_the_order_of(record.examples, reference.examples))


def _compare(
    settings: GateSettings, sound: Sequence[EvidenceRecord], champion: Champion, judged: _Judged
) -> None:
    if champion is None:
        sentence = "No model was registered before: there is nothing to compare with."
        judged.reasons.append(Reason(Code.CHAMPION_NONE, Outcome.PASS, sentence))
        return
    challenger = replicates_of(sound)
    reference = challenger.examples[0]
    wrong = _wrong_with(settings, champion, reference)
    if wrong is not None or not isinstance(champion, Examples):
        told = f"The registered model cannot be compared with: {wrong}"
        judged.reasons.append(failure(Code.CHAMPION_UNUSABLE, told))
        return
    champion = in_the_order_of(champion, reference)
    if outputs_digest(champion) == outputs_digest(reference):
        sentence = "The new model says of every example what the registered one says."
        judged.reasons.append(Reason(Code.CHAMPION_SAME, Outcome.PASS, sentence))
        return
    before = Replicates(examples=[champion] * len(sound), reported=[{}] * len(sound))
    quality = compare_arms(settings, before, {CHALLENGER: challenger}, {})[CHALLENGER]
    judged.metrics, found = judge_quality(quality, settings.confidence)
    reasons, notes = split_findings([*found, *quality.findings])
    judged.reasons += [_of_the_registered_one(reason) for reason in reasons]
    judged.notes += [_of_the_registered_one(note) for note in notes]


_Told = TypeVar("_Told", Reason, Note)


def _of_the_registered_one(told: _Told) -> _Told:
    """What was said of a baseline, in the words of a workload that has none."""
    sentence = told.sentence.replace("against the baseline", "against the registered model")
    return replace(told, sentence=sentence)


def _wrong_with(
    settings: GateSettings, champion: Examples | EvidenceError, reference: Examples
) -> str | None:
    """Why the champion's examples cannot be used, as a sentence; None when they can."""
    if isinstance(champion, EvidenceError):
        return f"{champion}."
    found = [*check_columns(champion, 0)] or [*check_same_examples(champion, reference, 0)]
    if found:
        return (
            found[0].sentence.removeprefix("Seed 0: ").replace("the baseline", "today's evaluation")
        )
    for name, guard in settings.metrics.items():
        try:
            metric_value(guard.measure(name), champion)
        except MetricUndefinedError as error:
            if not guard.watched:
                return f"{name} cannot be computed of it: {error}."
    return None


def _decide(judged: _Judged, champion: Champion, seed: int) -> Decision:
    if any(reason.code is Code.CHAMPION_SAME for reason in judged.reasons):
        told = "The registered model stands: the new model is no other."
        return Decision(CHAMPION, seed, told)
    if judged.outcome is Outcome.PASS:
        why = (
            "no model was registered before"
            if champion is None
            else "as good as the registered model within the declared margins"
        )
        return Decision(CHALLENGER, seed, f"Register the new model, seed {seed}: {why}.")
    if champion is None:
        return Decision(
            NO_ARM,
            seed,
            "Register nothing: the new model's evidence is not sound, and no model was registered "
            "before.",
        )
    why = {
        Outcome.FAIL: "the new model failed",
        Outcome.INCONCLUSIVE: "the new model was not shown to be as good",
    }[judged.outcome]
    return Decision(CHAMPION, seed, f"The registered model stands: {why}.")
