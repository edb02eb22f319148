"""Records compared: can these replicates be held against each other?

No job's evidence is there twice; all trained on the same data; all scored the same validation
examples with the same labels; seeds ended with models of their own; what was evaluated is what was
trained; and no validation example was trained on.

**The law.** What is found about the baseline comes from the baseline's own records. Between a
candidate and the baseline, the candidate is to blame: no candidate's evidence changes whether the
baseline is valid.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from compilegate.gate.evidence import Replicate, in_the_order_of, same_column, sharing, well_formed
from compilegate.gate.findings import (
    SCORES,
    TIMES,
    Code,
    Finding,
    Note,
    Reason,
    Subject,
    clipped,
    failure,
    percent,
)
from compilegate.gate.record import LEAST_STEPS as STEPS_OF_A_COURSE
from compilegate.gate.record import PART, Expected, Known, check_record, unusable
from compilegate.gate.settings import ArmDeclaration, Experiment
from compilegate.job.endings import ARM, ENDINGS, NEED
from compilegate.job.evidence import (
    EvidenceError,
    EvidenceRecord,
    Examples,
    FloatArray,
    IntArray,
    Origin,
)
from compilegate.job.evidence.parity import EPSILON
from compilegate.job.evidence.precision import otherwise_declared
from compilegate.job.evidence.trained_on import MOST_HASHES, hashed
from compilegate.job.names import AUTOCAST

Records = Mapping[Replicate, EvidenceRecord | EvidenceError]
"""By (arm, seed), the evidence or the error that reading it met."""
ROUNDED = 2.0**-23
"""What a number in single precision is off by, as a share of itself."""
MOST_ROWS = 2000
"""Rows whose outputs are compared, evenly over the examples: alike are all, or none."""
SAME_BITS = 1e-8
"""The share of the outputs' spread that no rounding of single precision is as small as."""
SAME_MODEL, OF_USUAL = 1e-3, 0.01
"""The share of the outputs' spread, and of what the baseline's seeds differ by, within which two
seeds whose losses agree have one model: no two seeds are as close."""
CLOSE = 0.2
"""The share of what the baseline's seeds differ by, within which a candidate's are close."""
SAME_LOSS = 0.01
"""What the same course of losses may differ by, as a share of their range."""
SAME_START = 1e-3
"""The share by which the first losses of one seed's model and batch may differ."""
FEW_ANSWERS, ROWS_TO_TELL, ERRORS_TO_TELL = 50, 1000, 10
"""With so few different answers, models agree by chance unless there are many rows and errors."""
MOST_INPUTS_SEEN = 0.5
"""The share of validation examples from which inputs that are in the training data, too, are the
rule. Texts and rows of a table do repeat: 5 to 25% are usual."""
MOST_MORE_SEEN = 0.1
"""By how much a candidate's share may exceed the baseline's: a fact of the data is one of both."""
FEW_SEEN = 0.001
"""The share of them that is not worth a word."""
DIGEST_OF_CONTENT = re.compile(r"[0-9a-f]{16,128}(-\d+)?")
"""An id that names a content, which may be that of several examples."""
MOST_APART_AT_FIRST, MOST_APART_AT_END = 0.25, 0.5
"""The share of the baseline's first losses, and of its fall, by which a candidate's may differ."""
SEEDS_APART, BATCHES_APART = 5.0, 3.0
"""Standard deviations of the baseline's seeds, and standard errors of the batches' own noise, that
are more than chance."""
NORMAL_MEDIAN = 1.4826
"""The standard deviation of normal values over the median of their distances from zero."""


@dataclass(frozen=True)
class Examined:
    """The records that could be read, and what was found about each replicate."""

    experiment: Experiment
    records: Mapping[Replicate, EvidenceRecord]
    findings: Mapping[Replicate, Sequence[Finding]]
    repeated: Mapping[str, frozenset[int]]
    """By arm, the seeds that made the model of an earlier seed: they count as one."""

    def timed(self, arm: str) -> list[EvidenceRecord]:
        """The records of whole trainings whose times can be compared."""
        return [self.records[arm, seed] for seed in self._usable(arm, TIMES)]

    def scored(self, arm: str) -> tuple[int, ...]:
        """The seeds of those whose scores can be compared."""
        return self._usable(arm, SCORES)

    def distinct(self, arms: Sequence[str]) -> tuple[int, ...]:
        """The seeds that can be compared in all arms, each with a model of its own."""
        first, *others = (self.scored(arm) for arm in arms)
        repeated = set[int]().union(*(self.repeated.get(arm, ()) for arm in arms))
        both = [seed for seed in first if all(seed in other for other in others)]
        return tuple(seed for seed in both if seed not in repeated)

    def was_trained(self, arm: str, seed: int) -> bool:
        """Whether the replicate recorded a whole training; a failed one knows little of itself."""
        record = self.records.get((arm, seed))
        return record is not None and record.evidence.failure is None

    def trained(self, arm: str) -> dict[int, EvidenceRecord]:
        """By seed, the records of the arm's whole trainings."""
        return {
            seed: self.records[arm, seed]
            for seed in self.experiment.seeds
            if self.was_trained(arm, seed)
        }

    def probed(self, arm: str) -> dict[int, EvidenceRecord]:
        """By seed, these and those of jobs that the parity probe ended."""
        return {
            seed: record
            for seed in self.experiment.seeds
            if (record := self.records.get((arm, seed))) is not None
            and (record.parity is not None or self.was_trained(arm, seed))
        }

    def reasons(self, arm: str) -> tuple[Reason, ...]:
        """Why the arm's evidence is not valid; empty when it is."""
        return tuple(it.said for it in self._of(arm) if isinstance(it.said, Reason))

    def notes(self, arm: str) -> tuple[Note, ...]:
        """What is odd about the arm's evidence; of what several seeds share, the first."""
        found: dict[Code, Note] = {}
        for each in self._of(arm):
            if isinstance(each.said, Note):
                found.setdefault(each.said.code, each.said)
        return tuple(found.values())

    def _of(self, arm: str) -> Iterator[Finding]:
        return (it for (of, _), found in self.findings.items() if of == arm for it in found)

    def _usable(self, arm: str, part: str) -> tuple[int, ...]:
        return tuple(
            seed
            for seed in self.experiment.seeds
            if self.was_trained(arm, seed)
            and not any(part in it.spoils for it in self.findings.get((arm, seed), ()))
        )


def examine(
    experiment: Experiment, records: Records, jobs: Mapping[Replicate, str] | None
) -> Examined:
    """Check every record by itself, and then all of them together."""
    checked = dict(sharing((key, readable(each)) for key, each in records.items()))
    found: dict[Replicate, EvidenceRecord] = {}
    findings: dict[Replicate, list[Finding]] = defaultdict(list)
    known, lost = Known(), _lost(experiment, checked)
    for arm, seed in experiment.replicates:
        record = checked.pop((arm, seed), None)
        about = Subject(seed)
        if not isinstance(record, EvidenceRecord):
            findings[arm, seed].append(unusable(about, record))
            continue
        found[arm, seed] = record
        expected = Expected(
            about=about,
            arm=arm,
            origin=Origin.PRINTED if experiment.evidence == "printed" else Origin.MEASURED,
            declaration=experiment.arms[arm],
            settings=experiment.settings,
            job=None if jobs is None else jobs.get((arm, seed), ""),
            lost=(arm, seed) in lost,
            known=known,
        )
        findings[arm, seed] += check_record(record, expected)
    for (arm, seed), error in checked.items():
        if isinstance(error, EvidenceError):
            findings[arm, seed].append(unusable(Subject(seed), error))
    _find_duplicates(experiment, found, findings)
    _check_one_precision(experiment, found, findings)
    _compare_with_reference(experiment, found, findings)
    examined = Examined(experiment, found, findings, {})
    examined = replace(examined, repeated=_compare_models(examined, findings))
    for arm in experiment.arms:
        _compare_arm(examined, arm, findings, known)
    return replace(examined, findings={key: tuple(it) for key, it in findings.items() if it})


def readable(record: EvidenceRecord | EvidenceError) -> EvidenceRecord | EvidenceError:
    """The record, or why it cannot be used: as if it had been written and read back."""
    try:
        return record if isinstance(record, EvidenceError) else well_formed(record)
    except EvidenceError as error:
        return error


def _lost(experiment: Experiment, records: Records) -> frozenset[Replicate]:
    """The replicates whose jobs ended without a model by the machine's doing, which is no evidence
    about their arm. Memory or time that ran out in all jobs of an arm, and in none of the
    baseline's attempts, is what the arm needs, and not lost."""
    evidence = {
        key: record.evidence
        for key, record in records.items()
        if isinstance(record, EvidenceRecord)
    }
    endings = {
        key: ENDINGS[each.ending]
        for key, each in evidence.items()
        if each.failure is not None and each.ending in ENDINGS
    }
    baseline = [each for (arm, _), each in evidence.items() if arm == experiment.baseline]
    met = {name for each in baseline for name in (each.ending, *each.attempts)}
    found = set()
    for (arm, seed), ending in endings.items():
        alike = (endings.get((arm, other)) for other in experiment.seeds)
        needed = ending.about == NEED and ending.name not in met and {*alike} == {ending}
        if ending.about != ARM and not needed:
            found.add((arm, seed))
    return frozenset(found)


def _find_duplicates(
    experiment: Experiment,
    readable: Mapping[Replicate, EvidenceRecord],
    findings: Mapping[Replicate, list[Finding]],
) -> None:
    """Replicates that hold the evidence of one and the same training job."""
    holders: dict[str, list[Replicate]] = defaultdict(list)
    for key in experiment.replicates:
        if key in readable:
            holders[readable[key].evidence.job].append(key)
    for job, replicates in holders.items():
        for key in replicates:
            others = [other for other in replicates if other != key]
            if key[0] == experiment.baseline:
                others = [other for other in others if other[0] == key[0]]
            if others:
                text = (
                    f"training job {clipped(job, 80)!r} is also that of {others[0][0]!r}, seed "
                    f"{others[0][1]}."
                )
                findings[key].append(Subject(key[1]).fails(Code.EVIDENCE_DUPLICATED, text))


# The same data and examples.


def _compare_with_reference(
    experiment: Experiment,
    readable: dict[Replicate, EvidenceRecord],
    findings: Mapping[Replicate, list[Finding]],
) -> None:
    """Compare each replicate whose scores can be used with the first such one of the baseline, and
    put the rows of those that agree into its order, so that rows meet. A reference that nothing is
    wrong with is preferred."""
    usable = {
        key: record
        for key, record in readable.items()
        if record.evidence.failure is None and not any(SCORES in it.spoils for it in findings[key])
    }
    references = [key for key in usable if key[0] == experiment.baseline]
    if not references:
        return
    reference = usable[min(references, key=lambda key: any(it.refuses for it in findings[key]))]
    for (arm, seed), record in usable.items():
        about = Subject(seed)
        mine, its = (each.evidence.digests.get("data") for each in (record, reference))
        if mine != its:
            text = "the prepared data differ from the baseline's: their sha256 is another."
            findings[arm, seed].append(about.fails(Code.DATA_DIFFERS, text))
        if record.examples is None or reference.examples is None:
            continue
        found = list(_differing(record.examples, reference.examples, about))
        findings[arm, seed].extend(found)
        if not found:
            examples = in_the_order_of(record.examples, reference.examples)
            readable[arm, seed] = replace(record, examples=examples)


def differing(found: Examples, reference: Examples) -> bool:
    """Whether two models were scored on other rows or classes."""
    return any(_differing(found, reference, Subject(0)))


def _differing(found: Examples, reference: Examples, about: Subject) -> Iterator[Finding]:
    classes, expected = found.scores.shape[1], reference.scores.shape[1]
    if classes != expected:
        text = f"{classes} classes, the baseline has {expected}."
        yield about.fails(Code.EXAMPLES_DIFFER, text)
    same = same_column(found.ids, reference.ids)
    if not same and not np.array_equal(np.sort(found.ids), np.sort(reference.ids)):
        missing = len(np.setdiff1d(reference.ids, found.ids))
        extra = len(np.setdiff1d(found.ids, reference.ids))
        text = f"not the baseline's validation examples: {missing} are missing, {extra} are others."
        yield about.fails(Code.EXAMPLES_DIFFER, text, missing=missing, extra=extra)
        return
    found = in_the_order_of(found, reference)
    labels = int(np.sum(found.labels != reference.labels))
    targets = _differing_targets(found.targets, reference.targets)
    for what, count in (("labels", labels), ("targets", targets)):
        if count:
            text = f"{what} of {count:,} examples differ from the baseline's."
            yield about.fails(Code.EXAMPLES_DIFFER, text, examples=count)
    for column in sorted({*found.slices, *reference.slices}):
        if not same_column(found.slices.get(column), reference.slices.get(column)):
            text = f"column {clipped(column, 60)!r} of categories differs from the baseline's."
            yield about.fails(Code.EXAMPLES_DIFFER, text)


def _differing_targets(found: FloatArray | None, reference: FloatArray | None) -> int:
    """How many targets differ by more than one of both was rounded to single precision."""
    if found is reference:
        return 0
    if found is None or reference is None:
        return len(found if found is not None else reference if reference is not None else ())
    return int(np.sum(np.abs(found - reference) > ROUNDED * np.abs(reference)))


def _compare_inputs(
    candidate: Mapping[int, EvidenceRecord], baseline: Mapping[int, EvidenceRecord]
) -> tuple[int, Finding] | None:
    """The first seed whose inputs differ from the baseline's under the same ids: some, or all but
    in another order, are other data or misaligned; all are hashed otherwise, as after a cast."""
    for seed, record in candidate.items():
        before = baseline.get(seed)
        found = [None if each is None else each.examples for each in (before, record)]
        usual, own = (None if each is None else each.inputs for each in found)
        if usual is None or own is None or len(usual) != len(own):
            continue
        count, rows = int(np.sum(usual != own)), len(own)
        if count == 0:
            continue
        text = f"{count:,} of {rows:,} inputs differ from the baseline's"
        if count < rows or np.array_equal(np.sort(usual), np.sort(own)):
            why = "are these the same rows in the same order, read in the same way?"
            about = Subject(seed).fails(Code.EXAMPLES_DIFFER, f"{text}: {why}", examples=count)
        else:
            text = f"{text}: hash before casting."
            about = Subject(seed).notes(Code.EXAMPLES_INPUTS_DIFFER, text, examples=count)
        return seed, about
    return None


# Models: are they several, and those that were trained?


def _compare_models(
    examined: Examined, findings: Mapping[Replicate, list[Finding]]
) -> dict[str, frozenset[int]]:
    """Find the seeds that made one model, and the outputs that are another model's."""
    records = {
        key: examined.records[key]
        for key in examined.experiment.replicates
        if key in examined.records and key[1] in examined.scored(key[0])
    }
    outputs, baseline = _outputs(records), examined.experiment.baseline
    usual = _usual_distance(records, outputs, baseline)
    repeated: dict[str, set[int]] = defaultdict(set)
    for one, other in combinations(records, 2):
        before, after = records[one], records[other]
        apart = _distance(outputs.get(one), outputs.get(other))
        digest = before.evidence.digests.get("model")
        one_model = digest is not None and digest == after.evidence.digests.get("model")
        alike = same_course(before, after)
        if one[0] == other[0]:
            near = max(SAME_MODEL, 0.0 if one[0] == baseline else OF_USUAL * usual)
            if alike and before.steps is not None and (one_model or apart <= near):
                repeated[one[0]].add(other[1])
            elif (
                not alike and (one_model or apart <= SAME_BITS) and _tell(before, outputs.get(one))
            ):
                findings[other].append(_of_another(other, one))
        elif (one_model and not alike) or (
            not one_model and apart <= SAME_BITS and _is_other(before, after, outputs.get(one))
        ):
            for of, whose in ((one, other), (other, one)):
                if of[0] != baseline:
                    findings[of].append(_of_another(of, whose))
    return {arm: frozenset(seeds) for arm, seeds in repeated.items()}


def _of_another(of: Replicate, whose: Replicate) -> Finding:
    text = (
        f"outputs match {whose[0]!r}, seed {whose[1]}, but the trainings differ: was the wrong "
        "checkpoint evaluated?"
    )
    return Subject(of[1]).fails(
        Code.MODEL_OUTPUTS_OF_ANOTHER, text, other_arm=whose[0], other_seed=whose[1]
    )


def same_course(one: EvidenceRecord, other: EvidenceRecord) -> bool:
    """Whether two trainings had the same losses: weights that are equal in the end were equal all
    the way. Losses that are logged with fewer digits are nearly so."""
    if one.steps is None or other.steps is None:
        return True
    before, after = one.steps.loss, other.steps.loss
    if len(before) != len(after):
        return False
    if not len(before):
        return True
    scale = max(float(np.ptp(before)), float(np.abs(before).mean()))
    with np.errstate(invalid="ignore"):
        return bool(np.abs(before - after).max() <= SAME_LOSS * scale)


def _is_other(one: EvidenceRecord, other: EvidenceRecord, outputs: FloatArray | None) -> bool:
    """Whether equal outputs of two arms are one model's: models that are equal to the last bit had
    equal losses all the way. Rounded outputs may agree because the compiler is good; then the
    trainings must have begun differently, too."""
    if outputs is None or not _tell(one, outputs) or one.steps is None or other.steps is None:
        return False
    before, after = one.steps.loss, other.steps.loss
    if len(before) != len(after):
        return True
    if _is_rounded(outputs):
        first = abs(float(before[0] - after[0])) if len(before) else 0.0
        return not same_course(one, other) and first > SAME_START * abs(float(before[0]))
    return not np.allclose(before, after, rtol=1e-9, atol=0.0, equal_nan=True)


def _tell(record: EvidenceRecord, outputs: FloatArray | None) -> bool:
    """Whether equal outputs mean one model. Where answers are few they may be agreement."""
    examples = record.examples
    if outputs is None or examples is None:
        return False
    if len(np.unique(outputs.round(6), axis=0)) > FEW_ANSWERS:
        return True
    if len(examples.ids) < ROWS_TO_TELL or not examples.scores.shape[1]:
        return False
    wrong = examples.scores.argmax(axis=1) != examples.labels
    return int(wrong.sum()) >= ERRORS_TO_TELL


def _is_rounded(outputs: FloatArray) -> bool:
    """Whether most of the numbers are whole multiples of a ten-thousandth, or of half precision."""
    scaled = outputs * 1e4
    decimal = np.abs(scaled - np.round(scaled)) < 1e-6 * np.maximum(1.0, abs(scaled))
    # bfloat16 is the upper half of single precision.
    half = outputs.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF) == 0
    with np.errstate(over="ignore"):
        half |= outputs.astype(np.float16).astype(np.float64) == outputs
    return bool(np.mean(decimal) > 0.5 or np.mean(half) > 0.5)


def _outputs(records: Mapping[Replicate, EvidenceRecord]) -> dict[Replicate, FloatArray]:
    """By replicate, the outputs on the same few rows; what has none, or other rows, is left out."""
    found: dict[Replicate, FloatArray] = {}
    first: Examples | None = None
    for key, record in records.items():
        examples = record.examples
        if examples is None:
            continue
        first = first or examples
        if same_column(examples.ids, first.ids):
            rows = np.linspace(0, len(examples.ids) - 1, min(len(examples.ids), MOST_ROWS))
            columns = (examples.predictions, examples.scores, examples.losses)
            said = next(it for it in columns if it is not None and it.size)
            found[key] = said[rows.astype(np.int64)].reshape(len(rows), -1)
    return found


def _distance(one: FloatArray | None, other: FloatArray | None) -> float:
    """The root mean square of the differences, over the spread of the outputs."""
    if one is None or other is None or one.shape != other.shape:
        return math.inf
    with np.errstate(over="ignore", invalid="ignore"):
        apart = float(np.sqrt(np.mean((one - other) ** 2)))
        spread = float(np.std(np.concatenate([one, other]), axis=0).max())
    return apart / max(spread, 1e-12) if math.isfinite(apart) else math.inf


def _usual_distance(
    records: Mapping[Replicate, EvidenceRecord], outputs: Mapping[Replicate, FloatArray], arm: str
) -> float:
    """What two seeds of the arm differ by; zero where that is not known."""
    found = [
        _distance(outputs[one], outputs[other])
        for one, other in combinations([key for key in outputs if key[0] == arm], 2)
        if _tell(records[one], outputs[one])
    ]
    return float(np.median(found)) if found else 0.0


def about_repeated(examined: Examined, arm: str) -> str | None:
    """Which seeds of an arm made one model, in a sentence; None where all made their own."""
    repeated = examined.repeated.get(arm)
    if not repeated:
        return None
    first = min(seed for seed in examined.scored(arm) if seed not in repeated)
    seeds = ", ".join(map(str, sorted(repeated)))
    return f"Seeds {first} and {seeds} of {arm} gave the same model: is `seed` passed on?"


# What an arm's models and trainings show.


def _compare_arm(
    examined: Examined, arm: str, findings: Mapping[Replicate, list[Finding]], known: Known
) -> None:
    """What the arm's records show by themselves, and beside the baseline's."""
    experiment = examined.experiment
    own = {seed: examined.records[arm, seed] for seed in examined.scored(arm)}
    if not own:
        return
    first = min(own, key=list(experiment.seeds).index)
    usual = {
        seed: examined.records[experiment.baseline, seed]
        for seed in examined.scored(experiment.baseline)
    }
    reference = None if arm == experiment.baseline else usual.get(first)
    about = Subject(first)
    for seed, record in own.items():
        before = None if reference is None else usual.get(seed)
        of_seed = Subject(seed)
        findings[arm, seed].extend(_trained_on_validation(of_seed, record, before, known))
        findings[arm, seed].extend(_trained_on_groups(of_seed, record, experiment.settings.groups))
    found = list(_of_one_class(about, own[first]))
    if reference is not None:
        found += _other_training_data(own, usual)
        if have_one_recipe(experiment.arms[experiment.baseline], experiment.arms[arm]):
            found += _starts_elsewhere(about, usual, own)
            found += _ends_elsewhere(about, usual, own)
            found += _seeds_close(about, examined, arm)
            before, after = (experiment.arms[name].padding for name in (experiment.baseline, arm))
            inputs = _compare_inputs(own, usual) if before == after else None
            if inputs is not None:
                findings[arm, inputs[0]].append(inputs[1])
    findings[arm, first].extend(found)


def have_one_recipe(before: ArmDeclaration, after: ArmDeclaration) -> bool:
    """Whether two arms are declared to train alike."""
    return (before.global_batch_size, before.learning_rate) == (
        after.global_batch_size,
        after.learning_rate,
    )


def _of_one_class(about: Subject, record: EvidenceRecord) -> Iterator[Finding]:
    examples = record.examples
    if examples is None or examples.scores.shape[1] < 2 or np.ptp(examples.labels):
        return
    text = "the validation data contain one class only."
    yield about.notes(Code.EXAMPLES_ONE_CLASS, text, examples=len(examples.labels))


def _seeds_close(about: Subject, examined: Examined, arm: str) -> Iterator[Finding]:
    """A candidate whose seeds end close to each other, while the baseline's do not."""
    records = {
        (of, seed): examined.records[of, seed]
        for of in (examined.experiment.baseline, arm)
        for seed in examined.scored(of)
        if seed not in examined.repeated.get(of, ())
    }
    outputs = _outputs(records)
    usual, own = (
        _usual_distance(records, outputs, of) for of in (examined.experiment.baseline, arm)
    )
    if 0.0 < own < CLOSE * usual:
        text = (
            f"outputs of this arm's seeds differ by {percent(own / usual)} of what the baseline's "
            "differ by: does it average models?"
        )
        yield about.notes(Code.MODEL_SEEDS_CLOSE, text, share=own / usual)


def _starts_elsewhere(
    about: Subject,
    baseline: Mapping[int, EvidenceRecord],
    candidate: Mapping[int, EvidenceRecord],
) -> Iterator[Finding]:
    """Trainings that all begin at another loss than the baseline's with the same seed: they should
    begin with the same weights and the same batch."""
    before, after = _pairs(baseline, candidate, lambda losses: float(losses[0]), 1)
    if len(before) < 2:
        return
    falls = [float(np.ptp(it.steps.loss)) for it in baseline.values() if it.steps is not None]
    # A loss that begins next to zero is no measure of itself.
    usual = max(float(np.median(np.abs(before))), float(np.median(falls)))
    noise = [_noise(it) for it in (*baseline.values(), *candidate.values())]
    of_batches = BATCHES_APART * math.sqrt(2.0) * float(np.median(noise))
    limit = max(MOST_APART_AT_FIRST * usual, SEEDS_APART * float(before.std(ddof=1)), of_batches)
    if _all_beyond(after - before, limit):
        text = (
            f"training starts at loss {np.median(after):.3g}, the baseline's at "
            f"{np.median(before):.3g}: are initial weights, data and loss the same?"
        )
        yield about.leaves_open(Code.STEPS_OTHER_START, text)


def _ends_elsewhere(
    about: Subject,
    baseline: Mapping[int, EvidenceRecord],
    candidate: Mapping[int, EvidenceRecord],
) -> Iterator[Finding]:
    """Trainings of the same recipe that all end far from the baseline's."""
    begun, _ = _pairs(baseline, candidate, lambda it: float(it[: len(it) // PART].mean()))
    before, after = _pairs(baseline, candidate, lambda it: float(it[-(len(it) // PART) :].mean()))
    if len(before) < 2:
        return
    fall = float(np.median(begun - before))
    limit = max(MOST_APART_AT_END * fall, SEEDS_APART * float(before.std(ddof=1)))
    if fall > 0.0 and _all_beyond(after - before, limit):
        text = (
            f"training ends at loss {np.median(after):.3g}, the baseline's at "
            f"{np.median(before):.3g}, with the same recipe."
        )
        yield about.notes(Code.STEPS_OTHER_END, text)


def _pairs(
    baseline: Mapping[int, EvidenceRecord],
    candidate: Mapping[int, EvidenceRecord],
    measure: Callable[[FloatArray], float],
    least: int = STEPS_OF_A_COURSE,
) -> tuple[FloatArray, FloatArray]:
    """By seed that both arms have, a measure of their losses, where there are enough."""
    found = []
    for seed, record in candidate.items():
        steps = [None if it is None else it.steps for it in (baseline.get(seed), record)]
        losses = [it.loss for it in steps if it is not None and len(it.loss) >= least]
        if len(losses) == 2 and all(np.isfinite(it).all() for it in losses):
            found.append([measure(it) for it in losses])
    pairs = np.array(found, dtype=np.float64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _all_beyond(apart: FloatArray, limit: float) -> bool:
    return bool((apart > limit).all() or (apart < -limit).all())


def _noise(record: EvidenceRecord) -> float:
    """The standard deviation of single losses at first, by how much each differs from the next: a
    loss that falls is none of it."""
    steps = record.steps
    if steps is None or len(steps.loss) < STEPS_OF_A_COURSE:
        return 0.0
    differences = np.abs(np.diff(steps.loss[: len(steps.loss) // PART]))
    return NORMAL_MEDIAN * float(np.median(differences)) / math.sqrt(2.0)


# What was trained on, as hashes of ids and inputs (`compilegate.job.evidence.trained_on`).


def _trained_on_validation(
    about: Subject, record: EvidenceRecord, baseline: EvidenceRecord | None, known: Known
) -> Iterator[Finding]:
    """Validation examples that the job trained on: by their ids, or most of them by their inputs,
    or many more of them than the `baseline`'s job did."""
    seen, examples = record.trained_on, record.examples
    if seen is None or examples is None:
        return
    rows = len(examples.ids)
    same = _seen(known.of((_hashed_names, examples.ids), lambda: _hashed_names(examples)), seen.ids)
    if same:
        text = f"about {same:,} of {rows:,} validation examples are in the training data, by id."
        yield about.fails(Code.DATA_TRAINED_ON, text, examples=same)
        return
    share = _inputs_seen(record)
    usual = share if baseline is None or baseline.trained_on is None else _inputs_seen(baseline)
    text = f"{percent(share)} of the validation inputs are in the training data, under other ids"
    if share >= MOST_INPUTS_SEEN and share > _repeat_by_nature(record):
        yield about.fails(Code.DATA_TRAINED_ON, f"{text}: take them out.", share=share)
    elif share - usual > MOST_MORE_SEEN:
        text = f"{text}; in the baseline {percent(usual)}: the training data differ."
        yield about.fails(Code.DATA_TRAINED_ON, text, share=share, baseline_share=usual)
    elif share > FEW_SEEN:
        count = round(share * rows)
        yield about.notes(Code.DATA_INPUTS_TRAINED_ON, f"{text}.", examples=count)


def _trained_on_groups(
    about: Subject, record: EvidenceRecord, groups: str | None
) -> Iterator[Finding]:
    """Validation examples of patients or customers that the job trained on. A split by time has
    such examples on purpose, so it is a note."""
    seen, examples = record.trained_on, record.examples
    if groups is None or seen is None or examples is None:
        return
    column, trained = examples.slices.get(groups), seen.slices.get(groups)
    if column is None or trained is None:
        return
    names, of_row = np.unique(column, return_inverse=True)
    hashes = hashed(names)
    # Of very many groups the smallest hashes are known, and the others are taken to be alike.
    known = hashes <= trained[-1] if len(trained) >= MOST_HASHES else np.ones(len(hashes), bool)
    rows = np.bincount(of_row, minlength=len(names))
    total = int(rows[known].sum())
    same = int(rows[known & np.isin(hashes, trained)].sum())
    count = round(same / total * len(column)) if total else 0
    if count:
        text = (
            f"about {count:,} of {len(column):,} validation examples have a {clipped(groups, 60)!r}"
            " that is in the training data too."
        )
        yield about.notes(Code.DATA_GROUPS_TRAINED_ON, text, examples=count)


def _other_training_data(
    of: Mapping[int, EvidenceRecord], baseline: Mapping[int, EvidenceRecord]
) -> Iterator[Finding]:
    for seed, record in of.items():
        before = baseline.get(seed)
        if before is None or record.trained_on is None or before.trained_on is None:
            continue
        share = _of_one_alone(record.trained_on.ids, before.trained_on.ids)
        if share > MOST_MORE_SEEN:
            text = f"{percent(share)} of the training examples are in one of the two arms alone."
            yield Subject(seed).notes(Code.DATA_OTHER_TRAINED_ON, text, share=share)
            return


def _of_one_alone(one: IntArray, other: IntArray) -> float:
    """The share of two sets that one alone holds, as far as the smallest hashes show."""
    if not len(one) or not len(other):
        return 0.0
    last = min((it[-1] for it in (one, other) if len(it) >= MOST_HASHES), default=None)
    if last is not None:
        one, other = one[one <= last], other[other <= last]
    together = len(np.union1d(one, other))
    return 1.0 - len(np.intersect1d(one, other)) / together if together else 0.0


def _hashed_names(examples: Examples) -> IntArray:
    return hashed([each for each in examples.ids.tolist() if _is_name(each)])


def _is_name(identifier: str) -> bool:
    """Whether it names one example. Numbers name rows, and those of the two parts of the data meet
    by chance; digests name a content, which may be that of several examples."""
    return not identifier.isdecimal() and DIGEST_OF_CONTENT.fullmatch(identifier) is None


def _inputs_seen(record: EvidenceRecord) -> float:
    """The share of validation examples whose inputs the job trained on, as far as it is known: by
    the inputs, else by ids that are digests of them."""
    seen, examples = record.trained_on, record.examples
    if seen is None or examples is None or not len(examples.ids):
        return 0.0
    if examples.inputs is not None:
        return _seen(examples.inputs, seen.inputs) / len(examples.ids)
    digests = [each for each in examples.ids.tolist() if DIGEST_OF_CONTENT.fullmatch(each)]
    return _seen(hashed(digests), seen.ids) / len(examples.ids)


def _repeat_by_nature(record: EvidenceRecord) -> float:
    """The largest share that would be seen were both parts drawn from the same inputs: rows of a
    small table repeat in the training data since they repeat everywhere.

    Of K equally frequent inputs, a share of 1 - exp(-n/K) repeats among n examples, which shows K;
    a training set that holds D of them has seen D/K of any others.
    """
    seen, examples = record.trained_on, record.examples
    if seen is None or examples is None or examples.inputs is None:
        return 0.0
    rows = len(examples.inputs)
    times = np.unique(examples.inputs, return_counts=True)[1]
    repeated = float(times[times > 1].sum())
    most = repeated + 2.0 * math.sqrt(repeated) + 3.0  # about 95% of Poisson counts lie below
    if most >= rows:
        return 1.0
    distinct = float(len(seen.inputs))
    if len(seen.inputs) >= MOST_HASHES:  # the smallest of all
        distinct /= (float(seen.inputs[-1]) + 2.0**63) / 2.0**64
    return min(1.0, -math.log1p(-most / rows) * max(1.0, distinct / rows))


def _seen(hashes: IntArray, trained: IntArray) -> int:
    """How many of the hashes are among those of the training data, of which the smallest are
    known."""
    comparable = hashes
    if len(trained) >= MOST_HASHES:
        comparable = hashes[hashes <= trained[-1]]
    if not len(comparable) or not len(trained):
        return 0
    return round(float(np.isin(comparable, trained).mean()) * len(hashes))


# Precision. A script decides that by itself, and a declaration is easily forgotten: what is not
# declared is fp32. Where both arms declare the same and trained the same, they compare fairly.


def _check_one_precision(
    experiment: Experiment,
    records: Mapping[Replicate, EvidenceRecord],
    findings: Mapping[Replicate, list[Finding]],
) -> None:
    """Jobs that did not train as declared, in an arm whose jobs differ among themselves."""
    for arm, declared in experiment.arms.items():
        trained = _precisions(experiment, records, arm)
        for seed, precision in trained.items():
            if len({*trained.values()}) > 1 and precision != declared.precision:
                text = f"{_otherwise(experiment, records, arm, [arm])}."
                findings[arm, seed].append(Subject(seed).fails(Code.RECIPE_DIFFERS, text))


def about_precision(
    experiment: Experiment, records: Mapping[Replicate, EvidenceRecord], arm: str
) -> Reason | Note | None:
    """What a candidate's verdict says where it or the baseline was not trained as declared. The
    baseline stays valid: what its jobs did is known."""
    if arm not in experiment.arms:
        return None
    both = (experiment.baseline, arm)
    declared = [experiment.arms[name].precision for name in both]
    trained = [{*_precisions(experiment, records, name).values()} for name in both]
    otherwise = [
        name
        for name, wanted, found in zip(both, declared, trained, strict=True)
        if len(found) == 1 and found != {wanted}
    ]
    if not otherwise:
        return None
    if len(otherwise) == 2 and declared[0] == declared[1] and trained[0] == trained[1]:
        text = _otherwise(experiment, records, arm, both)
        return Note(Code.RECIPE_PRECISION, f"In both arms {text}. They were compared all the same.")
    text = "; in arm ".join(
        f"{name} {_otherwise(experiment, records, name, [name])}" for name in otherwise
    )
    return failure(Code.RECIPE_DIFFERS, f"In arm {text}.", key="precision")


def _precisions(
    experiment: Experiment, records: Mapping[Replicate, EvidenceRecord], arm: str
) -> dict[int, str]:
    """By seed, what a job trained in: what its recipe or its parity says, and if one of them is
    not what is declared, that one."""
    declared, found = experiment.arms[arm].precision, dict[int, str]()
    for seed in experiment.seeds:
        record = records.get((arm, seed))
        if record is None or record.evidence.failure is not None:
            continue
        parity = None if record.parity is None else record.evidence.parity
        said = [record.evidence.recipe.get("precision"), parity and parity.precision]
        known = [each for each in said if isinstance(each, str) and each in EPSILON]
        if known:
            found[seed] = next((each for each in known if each != declared), declared)
    return found


def _otherwise(
    experiment: Experiment,
    records: Mapping[Replicate, EvidenceRecord],
    arm: str,
    arms: Sequence[str],
) -> str:
    """The first job of the arm that trained otherwise, in a sentence; to be changed in `arms`."""
    declared = experiment.arms[arm].precision
    trained = _precisions(experiment, records, arm)
    seed = next(seed for seed, precision in trained.items() if precision != declared)
    autocast = records[arm, seed].evidence.recipe.get(AUTOCAST) == trained[seed]
    return otherwise_declared(trained[seed], declared, arms, autocast=autocast)
