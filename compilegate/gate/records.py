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
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from compilegate.gate.evidence import Replicate, in_the_order_of, same_column, shared
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
from compilegate.gate.record import LEAST_STEPS, PART, Expected, Known, check_record, ends, unusable
from compilegate.gate.settings import ArmDeclaration, Experiment
from compilegate.job.contract import AUTOCAST
from compilegate.job.endings import ARM, ENDINGS, NEED
from compilegate.job.evidence import (
    EvidenceError,
    EvidenceOrigin,
    EvidenceRecord,
    Examples,
    FloatArray,
    IntArray,
)
from compilegate.job.evidence.parity import EPSILON, otherwise_declared
from compilegate.job.evidence.writing import MOST_HASHES, hashed

Records = Mapping[Replicate, EvidenceRecord | EvidenceError]
"""Evidence, or the error from reading it, by (arm, seed)."""
Readable = Mapping[Replicate, EvidenceRecord]
Findings = dict[Replicate, list[Finding]]
BySeed = Mapping[int, EvidenceRecord]

ROUNDED = 2.0**-23
"""Relative rounding error of single precision."""
MOST_ROWS = 2000
"""Rows whose outputs are compared, evenly spaced over the examples."""
SAME_BITS = 1e-8
"""Share of the outputs' spread below the rounding of single precision."""
SAME_MODEL, OF_USUAL = 1e-3, 0.01
"""Two seeds whose losses agree count as one model within this share of the outputs' spread, and of
the baseline's own differences between seeds."""
CLOSE = 0.2
"""The share of what the baseline's seeds differ by, within which a candidate's are close."""
SAME_LOSS = 0.01
"""Tolerance for equal loss curves, as a share of their range."""
LAST_BITS = 1e-6
"""What losses in single precision may differ by through rounding that no step has amplified, as in
small and nearly linear models."""
SAME_START = 1e-3
"""The share by which the first losses of one seed's model and batch may differ."""
FEW_ANSWERS, ROWS_TO_TELL, ERRORS_TO_TELL = 50, 1000, 10
"""With at most FEW_ANSWERS different answers, models may agree by chance unless there are
ROWS_TO_TELL rows and ERRORS_TO_TELL errors."""
MOST_INPUTS_SEEN = 0.5
"""The share of validation examples from which inputs that are in the training data, too, are the
rule. Texts and rows of a table do repeat: 5 to 25% are usual."""
MOST_MORE_SEEN = 0.1
"""Largest excess of a candidate's share over the baseline's."""
FEW_SEEN = 0.001
"""Largest share that is not reported."""
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
    records: Readable
    findings: Mapping[Replicate, Sequence[Finding]]
    repeated: Mapping[str, frozenset[int]]
    """Seeds by arm whose model equals an earlier seed's; they count as one."""

    def timed(self, arm: str) -> list[EvidenceRecord]:
        """The records of whole trainings whose times can be compared."""
        return list(self._usable(arm, TIMES).values())

    def scored(self, arm: str) -> dict[int, EvidenceRecord]:
        """Records with comparable scores, by seed."""
        return self._usable(arm, SCORES)

    def distinct(self, arms: Sequence[str]) -> tuple[int, ...]:
        """The seeds that can be compared in all arms, each with a model of its own."""
        scored = [self.scored(arm) for arm in arms]
        repeated = set[int]().union(*(self.repeated.get(arm, ()) for arm in arms))
        return tuple(
            seed
            for seed in self.experiment.seeds
            if seed not in repeated and all(seed in each for each in scored)
        )

    def of_seeds(self, arm: str, seeds: Sequence[int]) -> list[EvidenceRecord]:
        """The arm's records of these seeds."""
        return [self.records[arm, seed] for seed in seeds]

    def trained(self, arm: str) -> dict[int, EvidenceRecord]:
        """Records of completed trainings of the arm, by seed."""
        found = {seed: self.records.get((arm, seed)) for seed in self.experiment.seeds}
        return {
            seed: record
            for seed, record in found.items()
            if record is not None and record.evidence.failure is None
        }

    def probed(self, arm: str) -> dict[int, EvidenceRecord]:
        """Records of completed trainings, and of jobs that the parity probe ended, by seed."""
        ended = {
            seed: record
            for seed in self.experiment.seeds
            if (record := self.records.get((arm, seed))) is not None and record.parity is not None
        }
        return {**self.trained(arm), **ended}

    def reasons(self, arm: str) -> tuple[Reason, ...]:
        """Why the arm's evidence is not valid; empty when it is."""
        return tuple(it.statement for it in self._of(arm) if isinstance(it.statement, Reason))

    def notes(self, arm: str) -> tuple[Note, ...]:
        """Oddities of the arm's evidence; of one that several seeds share, the first."""
        found: dict[Code, Note] = {}
        for each in self._of(arm):
            if isinstance(each.statement, Note):
                found.setdefault(each.statement.code, each.statement)
        return tuple(found.values())

    def _of(self, arm: str) -> Iterator[Finding]:
        return (it for (of, _), found in self.findings.items() if of == arm for it in found)

    def _usable(self, arm: str, part: str) -> dict[int, EvidenceRecord]:
        return {
            seed: record
            for seed, record in self.trained(arm).items()
            if not any(part in it.spoils for it in self.findings.get((arm, seed), ()))
        }


def examine(
    experiment: Experiment, records: Records, jobs: Mapping[Replicate, str] | None
) -> Examined:
    """Check every record by itself, and then all of them together."""
    checked = dict(records)
    found: dict[Replicate, EvidenceRecord] = {}
    first: Examples | None = None
    findings: dict[Replicate, list[Finding]] = defaultdict(list)
    for key in experiment.replicates:
        record = checked.pop(key, None)
        if isinstance(record, EvidenceRecord):
            first = first or record.examples
            if first is not None and record.examples is not None:
                record = replace(record, examples=shared(record.examples, first))
            found[key] = record
        else:
            findings[key].append(unusable(Subject(key[1]), record))
    known, lost = Known(), _lost(experiment, found)
    for (arm, seed), record in found.items():
        expected = Expected(
            about=Subject(seed),
            arm=arm,
            origin=EvidenceOrigin.PRINTED
            if experiment.evidence == "printed"
            else EvidenceOrigin.MEASURED,
            declaration=experiment.arms[arm],
            settings=experiment.settings,
            job=None if jobs is None else jobs.get((arm, seed), ""),
            lost=(arm, seed) in lost,
            known=known,
        )
        findings[arm, seed] += check_record(record, expected)
    for (arm, seed), error in checked.items():  # which the experiment does not declare
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


def _lost(experiment: Experiment, records: Readable) -> frozenset[Replicate]:
    """The replicates whose jobs ended without a model by the machine's doing, which is no evidence
    about their arm. Memory or time that ran out in all jobs of an arm, and in none of the
    baseline's attempts, is what the arm needs, and not lost."""
    evidence = {key: record.evidence for key, record in records.items()}
    endings = {
        key: ENDINGS[each.ending]
        for key, each in evidence.items()
        if each.failure is not None and each.ending in ENDINGS
    }
    baseline = [each for (arm, _), each in evidence.items() if arm == experiment.baseline]
    met = {name for each in baseline for name in (each.ending, *each.attempts)}
    found = set()
    for (arm, seed), ending in endings.items():
        alike = all(endings.get((arm, other)) == ending for other in experiment.seeds)
        needed = ending.about == NEED and ending.name not in met and alike
        if ending.about != ARM and not needed:
            found.add((arm, seed))
    return frozenset(found)


def _find_duplicates(experiment: Experiment, records: Readable, findings: Findings) -> None:
    """Replicates that hold the evidence of one and the same training job."""
    for key, record in records.items():
        job = record.evidence.job
        for other, it in records.items():
            blamed = key[0] != experiment.baseline or other[0] == experiment.baseline
            if other != key and it.evidence.job == job and blamed:
                text = (
                    f"training job {clipped(job, 80)!r} is also that of {other[0]!r}, seed "
                    f"{other[1]}."
                )
                findings[key].append(Subject(key[1]).fails(Code.EVIDENCE_DUPLICATED, text))
                break


# The same data and examples.


def _compare_with_reference(
    experiment: Experiment, records: dict[Replicate, EvidenceRecord], findings: Findings
) -> None:
    """Compare each replicate whose scores can be used with the first such one of the baseline, and
    put the rows of those that agree into its order, so that rows meet. A reference that nothing is
    wrong with is preferred."""
    examined = Examined(experiment, records, findings, {})
    usual = examined.scored(experiment.baseline)
    if not usual:
        return
    refused = {
        seed: any(it.refuses for it in findings[experiment.baseline, seed]) for seed in usual
    }
    reference = usual[min(usual, key=refused.__getitem__)]
    for arm in experiment.arms:
        for seed, record in examined.scored(arm).items():
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
                records[arm, seed] = replace(record, examples=examples)


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
    for what, count in (("labels", labels), ("targets", _differing_targets(found, reference))):
        if count:
            text = f"{what} of {count:,} examples differ from the baseline's."
            yield about.fails(Code.EXAMPLES_DIFFER, text, examples=count)
    for column in sorted({*found.slices, *reference.slices}):
        if not same_column(found.slices.get(column), reference.slices.get(column)):
            text = f"column {clipped(column, 60)!r} of categories differs from the baseline's."
            yield about.fails(Code.EXAMPLES_DIFFER, text)


def _differing_targets(found: Examples, reference: Examples) -> int:
    """The number of targets that differ by more than rounding to single precision."""
    own, usual = found.targets, reference.targets
    if own is None or usual is None:
        return 0 if own is usual else len(found.labels)
    return 0 if own is usual else int(np.sum(np.abs(own - usual) > ROUNDED * np.abs(usual)))


def _differing_inputs(
    about: Subject, found: Examples | None, reference: Examples | None
) -> Iterator[Finding]:
    """Inputs that differ under the same ids: some, or all but in another order, are other data or
    misaligned; all are hashed otherwise, as after a cast."""
    own, usual = (None if it is None else it.inputs for it in (found, reference))
    if own is None or usual is None or len(own) != len(usual) or same_column(own, usual):
        return
    count, rows = int(np.sum(usual != own)), len(own)
    text = f"{count:,} of {rows:,} inputs differ from the baseline's"
    if count < rows or np.array_equal(np.sort(usual), np.sort(own)):
        text = f"{text}: are these the same rows in the same order, read in the same way?"
        yield about.fails(Code.EXAMPLES_DIFFER, text, examples=count)
    else:
        text = f"{text}: hash before casting."
        yield about.notes(Code.EXAMPLES_INPUTS_DIFFER, text, examples=count)


# Models: are they several, and those that were trained?


@dataclass(frozen=True)
class _Outputs:
    """Outputs of several models on the same rows."""

    of: Mapping[Replicate, FloatArray]
    """(rows, columns) each; what has none, or other rows, is left out."""
    identifying: Collection[Replicate]
    """Replicates whose outputs identify their model."""
    apart: Mapping[tuple[Replicate, Replicate], float]
    """Root mean square difference of two replicates' outputs over their spread, by ordered pair."""

    def usual(self, arm: str, seeds: Collection[int]) -> float:
        """The median difference of two seeds of the arm; zero where not known."""
        pairs = combinations([(arm, seed) for seed in seeds], 2)
        found = [self.apart[it] for it in pairs if it in self.apart and it[0] in self.identifying]
        return float(np.median(found)) if found else 0.0


def _compare_models(examined: Examined, findings: Findings) -> dict[str, frozenset[int]]:
    """Find the seeds that made one model, by arm, and the outputs that are another model's."""
    experiment, baseline = examined.experiment, examined.experiment.baseline
    scored = {arm: examined.scored(arm) for arm in experiment.arms}
    records = {(arm, seed): it for arm, own in scored.items() for seed, it in own.items()}
    losses = {key: it.steps.loss for key, it in records.items() if it.steps is not None}
    outputs = _outputs(records)
    usual = outputs.usual(baseline, scored[baseline])
    repeated: dict[str, set[int]] = defaultdict(set)
    for one, other in combinations(losses, 2):
        apart = outputs.apart.get((one, other), math.inf)
        model, its = (records[key].evidence.digests.get("model") for key in (one, other))
        one_model, within = model is not None and model == its, one[0] == other[0]
        near = max(SAME_MODEL, 0.0 if one[0] == baseline else OF_USUAL * usual)
        if not one_model and apart > (near if within else SAME_BITS):
            continue
        alike, identified = _same_course(losses[one], losses[other]), one in outputs.identifying
        if within and alike:
            repeated[one[0]].add(other[1])
        elif within:
            if identified and (one_model or apart <= SAME_BITS):
                findings[other].append(_of_another(other, one))
        elif one_model or identified:
            same = alike if one_model else _agree(losses[one], losses[other], outputs.of[one])
            for of, whose in ((one, other), (other, one)):
                if not same and of[0] != baseline:
                    findings[of].append(_of_another(of, whose))
    found = {arm: frozenset(seeds) for arm, seeds in repeated.items()}
    _find_close_seeds(replace(examined, repeated=found), outputs, findings)
    return found


def _of_another(of: Replicate, whose: Replicate) -> Finding:
    text = (
        f"outputs match {whose[0]!r}, seed {whose[1]}, but the trainings differ: was the wrong "
        "checkpoint evaluated?"
    )
    numbers = {"other_arm": whose[0], "other_seed": whose[1]}
    return Subject(of[1]).fails(Code.MODEL_OUTPUTS_OF_ANOTHER, text, **numbers)


def _find_close_seeds(examined: Examined, outputs: _Outputs, findings: Findings) -> None:
    """Candidates whose seeds end close to each other, while the baseline's do not."""
    arms, baseline = examined.experiment.arms, examined.experiment.baseline
    usual = outputs.usual(baseline, examined.distinct([baseline]))
    for arm, declared in arms.items():
        own = outputs.usual(arm, examined.distinct([arm]))
        if have_one_recipe(arms[baseline], declared) and 0.0 < own < CLOSE * usual:
            text = (
                f"outputs of this arm's seeds differ by {percent(own / usual)} of what the "
                "baseline's differ by: does it average models?"
            )
            first = next(iter(examined.scored(arm)))
            note = Subject(first).notes(Code.MODEL_SEEDS_CLOSE, text, share=own / usual)
            findings[arm, first].append(note)


def _outputs(records: Readable) -> _Outputs:
    outputs: dict[Replicate, FloatArray] = {}
    scored = {key: it.examples for key, it in records.items() if it.examples is not None}
    for key, examples in scored.items():
        if same_column(examples.ids, next(iter(scored.values())).ids):
            rows = np.linspace(0, len(examples.ids) - 1, min(len(examples.ids), MOST_ROWS))
            columns = (examples.predictions, examples.scores, examples.losses)
            answers = next(it for it in columns if it is not None and it.size)
            outputs[key] = answers[rows.astype(np.int64)].reshape(len(rows), -1)
    identifying = {key for key, each in outputs.items() if _identifies_model(scored[key], each)}
    apart: dict[tuple[Replicate, Replicate], float] = {}
    moments = {key: (it.mean(axis=0), it.var(axis=0)) for key, it in outputs.items()}
    for one, other in combinations(outputs, 2):
        if outputs[one].shape == outputs[other].shape:
            (mean, variance), (its_mean, its_variance) = moments[one], moments[other]
            spread = (variance + its_variance) / 2.0 + ((mean - its_mean) / 2.0) ** 2
            difference = math.sqrt(np.mean((outputs[one] - outputs[other]) ** 2))
            apart[one, other] = difference / max(math.sqrt(spread.max()), 1e-12)
    return _Outputs(outputs, identifying, apart)


def _identifies_model(examples: Examples, outputs: FloatArray) -> bool:
    """Whether equal outputs mean one model. Where answers are few they may be agreement."""
    if len({row.tobytes() for row in outputs.round(6) + 0.0}) > FEW_ANSWERS:  # zero has one sign
        return True
    if len(examples.ids) < ROWS_TO_TELL or not examples.scores.shape[1]:
        return False
    wrong = examples.scores.argmax(axis=1) != examples.labels
    return int(wrong.sum()) >= ERRORS_TO_TELL


def _same_course(before: FloatArray, after: FloatArray) -> bool:
    """Whether two trainings had the same losses: weights that are equal in the end were equal all
    the way. Losses that are logged with fewer digits are nearly so."""
    if len(before) != len(after) or not len(before):
        return len(before) == len(after)
    scale = max(float(np.ptp(before)), float(np.abs(before).mean()))
    with np.errstate(invalid="ignore"):
        return bool(np.abs(before - after).max() <= SAME_LOSS * scale)


def _agree(before: FloatArray, after: FloatArray, outputs: FloatArray) -> bool:
    """Whether two arms with equal outputs trained alike, by their losses: models that are equal but
    for rounding had such losses all the way. Rounded outputs may agree because the compiler is
    good; then it is enough that the trainings began alike."""
    if len(before) != len(after) or not _is_rounded(outputs):
        same = len(before) == len(after)
        return same and np.allclose(before, after, LAST_BITS, LAST_BITS, equal_nan=True)
    apart_at_first = np.abs(before - after)[:1] > SAME_START * np.abs(before[:1])
    return not apart_at_first.any() or _same_course(before, after)


def _is_rounded(outputs: FloatArray) -> bool:
    """Whether most of the numbers are whole multiples of a ten-thousandth, or of half precision."""
    scaled = outputs * 1e4
    decimal = np.abs(scaled - np.round(scaled)) < 1e-6 * np.maximum(1.0, abs(scaled))
    # bfloat16 is the upper half of single precision.
    half = outputs.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF) == 0
    with np.errstate(over="ignore"):
        half |= outputs.astype(np.float16).astype(np.float64) == outputs
    return bool(np.mean(decimal) > 0.5 or np.mean(half) > 0.5)


def about_repeated(examined: Examined, arm: str) -> str | None:
    """Which seeds of an arm made one model, in a sentence; None where all made their own."""
    repeated = examined.repeated.get(arm)
    if not repeated:
        return None
    first = min(seed for seed in examined.scored(arm) if seed not in repeated)
    *seeds, last = map(str, (first, *sorted(repeated)))
    together = f"{', '.join(seeds)} and {last}"
    return f"Seeds {together} of {arm} gave the same model: is `seed` passed on?"


# One arm, and beside the baseline.


def _compare_arm(examined: Examined, arm: str, findings: Findings, known: Known) -> None:
    """Add findings about the arm's records by themselves, and beside the baseline's."""
    experiment, baseline = examined.experiment, examined.experiment.baseline
    own, usual = examined.scored(arm), examined.scored(baseline)
    if not own:
        return
    both = {} if arm == baseline else {seed: usual[seed] for seed in own if seed in usual}
    for seed, record in own.items():
        about, before = Subject(seed), both.get(seed)
        findings[arm, seed] += _trained_on_validation(about, record, before, known)
        findings[arm, seed] += _trained_on_groups(about, record, experiment.settings.groups)
        if before is not None:
            findings[arm, seed] += _trained_on_others(about, record, before)
    first = next(iter(own))
    about, found = Subject(first), findings[arm, first]
    examples = own[first].examples
    if examples is not None and examples.scores.shape[1] and not np.ptp(examples.labels):
        text = "the validation data contain one class only."
        found.append(about.notes(Code.EXAMPLES_ONE_CLASS, text, examples=len(examples.labels)))
    declared, its = experiment.arms[arm], experiment.arms[baseline]
    if not both or not have_one_recipe(its, declared):
        return
    losses = list(_losses(both, own))
    found += _other_start(about, losses)
    found += _other_end(about, losses)
    if declared.padding == its.padding:
        for seed, record in both.items():
            different = list(_differing_inputs(Subject(seed), own[seed].examples, record.examples))
            findings[arm, seed] += different
            if different:  # the first seed is enough
                break


def have_one_recipe(before: ArmDeclaration, after: ArmDeclaration) -> bool:
    """Whether two arms are declared to train alike."""
    batch = before.global_batch_size == after.global_batch_size
    return batch and before.learning_rate == after.learning_rate


Losses = Sequence[tuple[FloatArray, FloatArray]]
"""(baseline's, candidate's) step losses, for each seed."""


def _losses(usual: BySeed, own: BySeed) -> Iterator[tuple[FloatArray, FloatArray]]:
    for seed, record in usual.items():
        before, after = record.steps, own[seed].steps
        if before is None or after is None or not min(len(before.loss), len(after.loss)):
            continue
        if np.isfinite(before.loss).all() and np.isfinite(after.loss).all():
            yield before.loss, after.loss


def _other_start(about: Subject, losses: Losses) -> Iterator[Finding]:
    """Trainings that all begin at another loss than the baseline's with the same seed: they should
    begin with the same weights and the same batch."""
    if len(losses) < 2:
        return
    before, after = np.array([(usual[0], own[0]) for usual, own in losses]).T
    # A loss that begins next to zero is no measure of itself.
    fall = float(np.median([np.ptp(usual) for usual, _ in losses]))
    noise = float(np.median([_noise(it) for pair in losses for it in pair]))
    limit = max(
        MOST_APART_AT_FIRST * max(float(np.median(np.abs(before))), fall),
        SEEDS_APART * float(before.std(ddof=1)),
        BATCHES_APART * math.sqrt(2.0) * noise,
    )
    if _all_beyond(after - before, limit):
        text = (
            f"training starts at loss {np.median(after):.3g}, the baseline's at "
            f"{np.median(before):.3g}: are initial weights, data and loss the same?"
        )
        yield about.leaves_open(Code.STEPS_OTHER_START, text)


def _other_end(about: Subject, losses: Losses) -> Iterator[Finding]:
    """Trainings of the same recipe that all end far from the baseline's."""
    long = [pair for pair in losses if min(map(len, pair)) >= LEAST_STEPS]
    if len(long) < 2:
        return
    means = [[float(part.mean()) for it in pair for part in ends(it)] for pair in long]
    start, before, _, after = np.array(means).T
    fall = float(np.median(start - before))
    limit = max(MOST_APART_AT_END * fall, SEEDS_APART * float(before.std(ddof=1)))
    if fall > 0.0 and _all_beyond(after - before, limit):
        text = (
            f"training ends at loss {np.median(after):.3g}, the baseline's at "
            f"{np.median(before):.3g}, with the same recipe."
        )
        yield about.notes(Code.STEPS_OTHER_END, text)


def _all_beyond(apart: FloatArray, limit: float) -> bool:
    return bool((apart > limit).all() or (apart < -limit).all())


def _noise(losses: FloatArray) -> float:
    """The standard deviation of single losses at first, by how much each differs from the next: a
    loss that falls is none of it."""
    if len(losses) < LEAST_STEPS:
        return 0.0
    differences = np.abs(np.diff(losses[: len(losses) // PART]))
    return NORMAL_MEDIAN * float(np.median(differences)) / math.sqrt(2.0)


# What was trained on, as hashes of ids and inputs (`compilegate.job.evidence.writing`).


def _trained_on_validation(
    about: Subject, record: EvidenceRecord, baseline: EvidenceRecord | None, known: Known
) -> Iterator[Finding]:
    """Validation examples that the job trained on: by their ids, or most of them by their inputs,
    or many more of them than the `baseline`'s job did."""
    seen, examples = record.trained_on, record.examples
    if seen is None or examples is None:
        return
    rows = len(examples.ids)
    names, _ = known.of((_hashed_ids, examples.ids), lambda: _hashed_ids(examples.ids))
    same = _seen(names, seen.ids)
    if same:
        text = f"about {same:,} of {rows:,} validation examples are in the training data, by id."
        yield about.fails(Code.DATA_TRAINED_ON, text, examples=same)
        return
    share = _inputs_seen(record, known) or 0.0
    of_baseline = None if baseline is None else _inputs_seen(baseline, known)
    usual = share if of_baseline is None else of_baseline
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
    if groups is None or record.trained_on is None or record.examples is None:
        return
    column = record.examples.slices.get(groups)
    trained = record.trained_on.slices.get(groups)
    if column is None or trained is None:
        return
    names, of_row = np.unique(column, return_inverse=True)
    count = _seen(hashed(names)[of_row], trained)
    if count:
        text = (
            f"about {count:,} of {len(column):,} validation examples have a {clipped(groups, 60)!r}"
            " that is in the training data too."
        )
        yield about.notes(Code.DATA_GROUPS_TRAINED_ON, text, examples=count)


def _trained_on_others(
    about: Subject, record: EvidenceRecord, baseline: EvidenceRecord
) -> Iterator[Finding]:
    """Training examples of one of the two arms alone, as far as the smallest hashes show."""
    if record.trained_on is None or baseline.trained_on is None:
        return
    both = [record.trained_on.ids, baseline.trained_on.ids]
    if not all(map(len, both)):
        return
    last = min((it[-1] for it in both if len(it) >= MOST_HASHES), default=None)
    if last is not None:
        both = [it[it <= last] for it in both]
    together = len(np.union1d(both[0], both[1]))
    share = len(np.setxor1d(both[0], both[1])) / together if together else 0.0
    if share > MOST_MORE_SEEN:
        text = f"{percent(share)} of the training examples are in one of the two arms alone."
        yield about.notes(Code.DATA_OTHER_TRAINED_ON, text, share=share)


def _hashed_ids(ids: npt.NDArray[np.str_]) -> tuple[IntArray, IntArray]:
    """Hashes of the ids that name one example, and of those that are digests. Numbers are neither:
    they name rows, and those of the two parts of the data meet by chance."""
    texts = ids.tolist()
    digests = [it for it in texts if DIGEST_OF_CONTENT.fullmatch(it)]
    known = {*digests}
    return hashed([it for it in texts if it not in known and not it.isdecimal()]), hashed(digests)


def _inputs_seen(record: EvidenceRecord, known: Known) -> float | None:
    """The share of validation examples whose inputs the job trained on, as far as it is known: by
    the inputs, else by ids that are digests of them. None where the job did not say."""
    seen, examples = record.trained_on, record.examples
    if seen is None or examples is None:
        return None
    if examples.inputs is not None:
        hashes, among = examples.inputs, seen.inputs
    else:
        _, hashes = known.of((_hashed_ids, examples.ids), lambda: _hashed_ids(examples.ids))
        among = seen.ids
    return _seen(hashes, among) / len(examples.ids)


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


def _check_one_precision(experiment: Experiment, records: Readable, findings: Findings) -> None:
    """Jobs that did not train as declared, in an arm whose jobs differ among themselves."""
    for arm, declared in experiment.arms.items():
        trained = _precisions(experiment, records, arm)
        for seed, precision in trained.items():
            if len({*trained.values()}) > 1 and precision != declared.precision:
                text = f"{_otherwise(records[arm, seed], precision, declared.precision, [arm])}."
                findings[arm, seed].append(Subject(seed).fails(Code.RECIPE_DIFFERS, text))


def about_precision(experiment: Experiment, records: Readable, arm: str) -> Reason | Note | None:
    """What a candidate's verdict says where it or the baseline was not trained as declared. The
    baseline stays valid: what its jobs did is known."""
    both = (experiment.baseline, arm)
    declared = {name: experiment.arms[name].precision for name in both}
    otherwise = {}
    for name in both:
        trained = _precisions(experiment, records, name)
        if len({*trained.values()}) == 1 and declared[name] not in trained.values():
            otherwise[name] = next(iter(trained.items()))
    if not otherwise:
        return None

    def sentence(name: str, arms: Sequence[str]) -> str:
        seed, precision = otherwise[name]
        return _otherwise(records[name, seed], precision, declared[name], arms)

    alike = len({declared[name] for name in both}) == 1
    if len(otherwise) == 2 and alike and len({it for _, it in otherwise.values()}) == 1:
        text = f"In both arms {sentence(arm, both)}. They were compared all the same."
        return Note(Code.RECIPE_PRECISION, text)
    text = "; in arm ".join(f"{name} {sentence(name, [name])}" for name in otherwise)
    return failure(Code.RECIPE_DIFFERS, f"In arm {text}.", key="precision")


def _precisions(experiment: Experiment, records: Readable, arm: str) -> dict[int, str]:
    """Training precision by seed, from the recipe or the parity record; an undeclared one wins."""
    declared, found = experiment.arms[arm].precision, dict[int, str]()
    for seed in experiment.seeds:
        record = records.get((arm, seed))
        if record is None or record.evidence.failure is not None:
            continue
        parity = None if record.parity is None else record.evidence.parity
        recorded = (record.evidence.recipe.get("precision"), parity and parity.precision)
        known = [each for each in recorded if isinstance(each, str) and each in EPSILON]
        if known:
            found[seed] = next((each for each in known if each != declared), declared)
    return found


def _otherwise(record: EvidenceRecord, trained: str, declared: str, arms: Sequence[str]) -> str:
    """A sentence for a job that did not train as declared; `arms` are to be changed."""
    autocast = record.evidence.recipe.get(AUTOCAST) == trained
    return otherwise_declared(trained, declared, arms, autocast=autocast)
