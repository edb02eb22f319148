"""Integrity of one replicate's examples: whole, what they say they are, and as reported?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from compilegate.evidence import Evidence, EvidenceRecord, Examples, FloatArray, Origin, above_one
from compilegate.gate.integrity.expectation import Expectation, KnownRows
from compilegate.gate.quality.metrics import MetricUndefinedError
from compilegate.gate.quality.metrics.losses import (
    LOST_DIGITS,
    SMALLEST_EXACT_SCORE,
    label_scores,
)
from compilegate.gate.reasons import Code, Note, Outcome, Reason, Subject, clipped
from compilegate.gate.settings import GateSettings, MetricGuard

SUM_TOLERANCE = 6e-4
"""For a row of probabilities; single-precision softmax over thousands of classes stays within, and
scores that were rounded to half precision."""
MEAN_SUM_TOLERANCE = 2.5e-4
"""For the mean over all rows: rounding goes either way."""
LOSS_TOLERANCE = 0.02
"""Nats between a recorded loss and the one its score implies; bfloat16 scores stay within."""
REPORTED_TOLERANCE = 1e-4
"""Between a reported metric and the gate's own: jobs may print four decimals."""

MOST_LOSS = 1e6
"""A million nats: beyond them a number is damage, not a measurement."""
MOST_VALUE = 1e30
"""The largest prediction and reported metric: fourth powers of it are still finite."""
ROWS_OF_ONE_CLASS = 20
"""Fewer examples may be of one class by chance."""
MUST_BE_REPORTED = frozenset({"accuracy", "balanced_accuracy", "macro_f1", "log_loss"})
"""What every classification job reports. Others are computed from the examples, and must only agree
where the job reports them too."""


def check_examples(
    evidence: Evidence, examples: Examples, expected: Expectation
) -> Iterator[Reason]:
    """Check the rows in stages: a later check needs what an earlier one has found to hold."""
    about = expected.about
    found = (
        tuple(_check_rows(examples, about, expected.known))
        or tuple(_check_values(examples, about))
        or tuple(_check_meaning(examples, about))
    )
    yield from found
    if found:
        return
    recorded = evidence.digests.get("examples")
    if recorded and recorded != expected.known.digest_of(examples):
        yield about.fails(
            Code.DIGEST_DIFFERS,
            "the ids and labels in examples.npz are not those whose digest evidence.json holds.",
            columns="examples",
        )
    for metric, guard in expected.settings.metrics.items():
        if guard.reported:
            yield from _check_is_reported(metric, guard, evidence, about)
        else:
            yield from _check_computed(metric, guard, evidence, examples, expected)


def check_reported(evidence: Evidence, expected: Expectation) -> Iterator[Reason]:
    """Whether a job without examples reported all that the gate guards."""
    about = expected.about
    for metric, guard in expected.settings.metrics.items():
        if guard.reported:
            yield from _check_is_reported(metric, guard, evidence, about)
        elif not guard.watched:
            told = f"{metric} is computed from examples, and the job wrote none."
            yield about.fails(Code.EVIDENCE_LACKING, told, metric=metric)
    for part in expected.settings.slices:
        if not part.watched:
            told = f"{part.metric} of {part.column!r} needs examples, and the job wrote none."
            yield about.fails(Code.EVIDENCE_LACKING, told, metric=part.metric, column=part.column)


def unchecked_losses(settings: GateSettings, records: Iterable[EvidenceRecord]) -> list[Note]:
    """What is to be known where guarded losses are all that jobs have: no score shows them wrong.

    A loss in the model's own unit is never computed from anything else.
    """
    bare = any(
        record.examples is not None and not record.examples.scores.shape[1] for record in records
    )
    found = [
        name
        for name in settings.guarded
        if not settings.metrics[name].reported
        and (name == "loss" or (bare and name in ("log_loss", "perplexity")))
    ]
    return [
        Note(
            Code.EXAMPLES_LOSSES_UNCHECKED,
            f"{name} is judged by the losses that the jobs wrote: without scores, nothing checks "
            "them.",
            {"metric": name},
        )
        for name in found
    ]


def of_one_class(record: EvidenceRecord) -> Iterator[Reason]:
    """A doubt of what is said of a classifier from examples of one class alone."""
    examples = record.examples
    if examples is None or examples.scores.shape[1] < 2:
        return
    rows = len(examples.labels)
    if rows >= ROWS_OF_ONE_CLASS and np.ptp(examples.labels) == 0:
        yield Reason(
            Code.EXAMPLES_ONE_CLASS,
            Outcome.INCONCLUSIVE,
            f"All {rows:,} validation examples are of one class: what the models make of the "
            "others is not seen. See how the validation data were taken.",
            {"examples": rows},
        )


def of_other_inputs(
    candidate: Mapping[int, EvidenceRecord], baseline: Mapping[int, EvidenceRecord]
) -> Iterator[Reason]:
    """A candidate of the baseline's recipe that was evaluated on other inputs under the same ids.
    Another batch or padding makes other inputs of the same text."""
    for seed, record in candidate.items():
        before = baseline.get(seed)
        found = [None if each is None else each.examples for each in (before, record)]
        usual, own = (None if each is None else each.inputs for each in found)
        if usual is None or own is None or len(usual) != len(own):
            continue
        differing = int(np.sum(usual != own))
        if differing:
            yield Subject(seed).fails(
                Code.EXAMPLES_INPUTS_DIFFER,
                f"{differing:,} examples have other inputs than the baseline's under the same ids: "
                "see whether both arms read the validation data in one order and one way.",
                examples=differing,
            )
            return


def of_equal_losses(record: EvidenceRecord) -> Iterator[Reason]:
    """A doubt of losses of which every example has the same: that is a mean, written many times."""
    examples = record.examples
    if examples is None or examples.scores.shape[1] or examples.predictions is not None:
        return
    rows = len(examples.losses)
    if rows >= ROWS_OF_ONE_CLASS and float(np.ptp(examples.losses)) == 0.0:
        yield Reason(
            Code.EXAMPLES_LOSSES_EQUAL,
            Outcome.INCONCLUSIVE,
            f"All {rows:,} validation examples have the same loss, which is their mean and not "
            "theirs: how much examples differ is not known. Write the loss of each.",
            {"examples": rows},
        )


def _check_rows(examples: Examples, about: Subject, known: KnownRows) -> Iterator[Reason]:
    rows, classes = examples.scores.shape
    # Without classes there are numbers that the model predicts, or losses alone.
    if rows < 2 or classes == 1:
        yield about.fails(
            Code.EXAMPLES_TOO_FEW,
            f"examples.npz has {rows} examples and {classes} classes, two of each are the least "
            "that can be compared, or no class at all where there are numbers or losses alone.",
            examples=rows,
        )
        return
    repeated = known.repeated_ids(examples.ids)
    if repeated is None:
        yield about.fails(
            Code.EXAMPLES_IDS_UNREADABLE,
            "the example ids in examples.npz are not valid text.",
        )
    elif repeated:
        yield about.fails(
            Code.EXAMPLES_IDS_REPEAT,
            f"{repeated} example ids repeat.",
        )
    if examples.labels.min() < 0 or examples.labels.max() >= max(classes, 1):
        yield about.fails(
            Code.EXAMPLES_LABEL_RANGE,
            f"labels reach from {examples.labels.min()} to {examples.labels.max()}, "
            f"but there are scores for {classes} classes.",
        )


def _check_values(examples: Examples, about: Subject) -> Iterator[Reason]:
    numbers = (examples.losses, examples.targets, examples.predictions)
    columns = [column for column in numbers if column is not None]
    # Whole columns first, since rows are slow to go over and nearly always fine.
    if np.isfinite(examples.scores).all() and all(_is_plausible(it).all() for it in columns):
        return
    bad = ~np.isfinite(examples.scores).all(axis=1)
    for column in columns:
        bad |= ~_is_plausible(column)
    if bad.any():
        yield about.fails(
            Code.EXAMPLES_NOT_FINITE,
            f"{int(bad.sum())} examples have a value that is not a number, or is "
            f"beyond {MOST_VALUE:.0e}; "
            f"the first is {clipped(repr(str(examples.ids[int(bad.argmax())])))}.",
            examples=int(bad.sum()),
        )


def _is_plausible(column: FloatArray) -> npt.NDArray[np.bool_]:
    """(examples,) False for NaN too."""
    plausible: npt.NDArray[np.bool_] = np.abs(column) <= MOST_VALUE
    return plausible


def _check_meaning(examples: Examples, about: Subject) -> Iterator[Reason]:
    scores = examples.scores
    if scores.shape[1] == 0:  # the model predicts numbers, or losses are all there is
        return
    bad = _are_no_probabilities(scores)
    if bad.any():
        yield about.fails(
            Code.EXAMPLES_NOT_PROBABILITIES,
            f"the scores of {int(bad.sum())} examples are not probabilities that "
            f"sum to one, the first is {clipped(repr(str(examples.ids[int(bad.argmax())])))}.",
            examples=int(bad.sum()),
        )
    likelihood = label_scores(examples)
    exact = likelihood >= SMALLEST_EXACT_SCORE
    implied = -np.log(np.where(exact, likelihood, likelihood + LOST_DIGITS))
    odd = ~((examples.losses >= -LOSS_TOLERANCE) & (examples.losses <= MOST_LOSS))
    odd |= exact & (examples.losses > implied + LOSS_TOLERANCE)
    odd |= examples.losses < implied - LOSS_TOLERANCE
    if odd.any():
        yield about.fails(
            Code.EXAMPLES_LOSSES_DISAGREE,
            f"the losses of {int(odd.sum())} examples are not the negative logarithm "
            "of their label's score.",
            examples=int(odd.sum()),
        )


def _are_no_probabilities(scores: FloatArray) -> npt.NDArray[np.bool_]:
    """(examples,) whether a row has a score outside [0, 1], or a sum that is not one."""
    bad: npt.NDArray[np.bool_] = np.zeros(len(scores), dtype=np.bool_)
    if scores.min() < 0.0 or scores.max() > 1.0 + SUM_TOLERANCE:
        bad |= ((scores < 0.0) | (scores > 1.0 + SUM_TOLERANCE)).any(axis=1)
        scores = scores.clip(-1.0, 2.0)  # so that a huge score, bad as it is, overflows no sum
    # As a product, since numpy's sum over short rows takes ten times as long.
    excess = scores @ np.ones(scores.shape[1]) - 1.0
    bad |= np.abs(excess) > SUM_TOLERANCE
    if abs(float(excess.mean())) > MEAN_SUM_TOLERANCE:
        bad |= np.abs(excess) > MEAN_SUM_TOLERANCE
    return bad


def _check_is_reported(
    metric: str, guard: MetricGuard, evidence: Evidence, about: Subject
) -> Iterator[Reason]:
    value = evidence.metrics.get(metric)
    if value is None and not guard.watched:
        yield _not_reported(metric, about)
    if value is not None and above_one(metric, value):
        yield about.fails(
            Code.METRIC_ABOVE_ONE,
            f"the job reported {metric} as {value:.6g}, expected a fraction of 1 at most; divide "
            "percentages by 100, or name the metric in `percent` of [program] if it is printed.",
            metric=metric,
        )


def _check_computed(
    metric: str,
    guard: MetricGuard,
    evidence: Evidence,
    examples: Examples,
    expected: Expectation,
) -> Iterator[Reason]:
    about = expected.about
    reported = evidence.metrics.get(metric)
    must_be_told = evidence.origin == Origin.MEASURED and metric in MUST_BE_REPORTED
    if reported is None and must_be_told and not guard.watched:
        yield _not_reported(metric, about)
        return
    try:
        computed = expected.values.of(guard.measure(metric), examples)
    except MetricUndefinedError as error:
        if not guard.watched:
            sentence = f"{metric} cannot be computed: {error}."
            yield about.fails(Code.METRIC_UNDEFINED, sentence, metric=metric)
        return
    # A reported value that is not finite has its own reason, and disagrees with everything here.
    tolerance = REPORTED_TOLERANCE * max(1.0, abs(computed))
    if metric == "log_loss" and reported is not None:
        # By its own losses, which agree with the scores as far as these have digits.
        computed = min(computed, float(examples.losses.mean()), key=lambda it: abs(reported - it))
    if reported is not None and not abs(reported - computed) <= tolerance:
        yield about.fails(
            Code.METRIC_DISAGREES,
            f"the job reported {metric} {reported:.6g}, its own examples give {computed:.6g}.",
            metric=metric,
            computed=computed,
        )


def _not_reported(metric: str, about: Subject) -> Reason:
    return about.fails(
        Code.METRIC_MISSING,
        f"the job did not report {metric}, which the gate guards.",
        metric=metric,
    )
