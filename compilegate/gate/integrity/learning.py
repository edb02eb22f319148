"""Did the training teach the models anything? What losses and metrics say of that. Pure.

Two arms that both answer at chance are equally good, and worth nothing. So every guarded metric has
a floor: what is declared, or else what the best constant answer reaches, which is the most frequent
class, the classes' shares, the mean of the targets. An arm whose models are not better has learnt
nothing that the gate could compare.

And did they learn the validation examples by heart? Jobs may say what they trained on, as hashes of
ids and inputs (`compilegate.job.evidence.trained_on`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from compilegate.evidence import EvidenceRecord, Examples, FloatArray, IntArray
from compilegate.gate.quality.metrics import MetricUndefinedError, MetricValues, per_example
from compilegate.gate.reasons import Code, Note, Reason, Subject, failure
from compilegate.gate.settings import GateSettings, MetricGuard
from compilegate.job.evidence.trained_on import MOST_HASHES, hashed

PART = 5
"""Losses are compared between the first and the last fifth of the steps."""
LEAST_STEPS = 20
"""Fewer steps show nothing of a course."""
HAVE_A_CONSTANT = frozenset(
    {"accuracy", "balanced_accuracy", "macro_f1", "micro_f1", "auroc", "log_loss", "perplexity"}
    | {"mse", "mae"}
)
"""Metrics of which the best constant answer is known. The calibration error of one is zero."""
LEAST_FALL = 0.05
"""The share of the loss at first that a training loses which has learnt anything; a guess."""


MOST_INPUTS_SEEN = 0.5
"""The share of validation examples from which inputs that are in the training data, too, are the
rule: less than half of them leave a metric that speaks of new inputs for the most part. Texts and
rows of a table do repeat: 5 to 25% are usual."""
DIGEST_OF_CONTENT = re.compile(r"[0-9a-f]{16,128}(-\d+)?")
"""What `training.prepare` makes of a text and its label where the data have no ids, and others
of whole rows; equal ones are told apart by a number."""
MOST_MORE_SEEN = 0.1
"""By how much a candidate's share may exceed the baseline's: a fact of the data is one of both."""
FEW_SEEN = 0.001
"""The share of them that is not worth a word."""


def trained_on_validation(
    about: Subject, record: EvidenceRecord, baseline: EvidenceRecord | None
) -> Iterator[Reason]:
    """Validation examples that the job trained on: by their ids, or most of them by their inputs,
    or many more of them than the `baseline`'s job did."""
    seen, examples = record.trained_on, record.examples
    if seen is None or examples is None:
        return
    rows = len(examples.ids)
    same = _seen(hashed([each for each in examples.ids.tolist() if _is_name(each)]), seen.ids)
    if same:
        yield about.fails(
            Code.DATA_TRAINED_ON,
            f"about {same:,} of the {rows:,} validation examples are in the training data, by "
            "their ids: what the model knows by heart says nothing of how good it is.",
            examples=same,
        )
        return
    share = _inputs_seen(record)
    if share >= MOST_INPUTS_SEEN and share > _repeat_by_nature(record):
        yield about.fails(
            Code.DATA_TRAINED_ON,
            f"{share:.0%} of the validation examples are in the training data, under other ids: "
            "their inputs are the same, and inputs do not repeat that often among themselves. "
            "Take them out of the training data.",
            share=share,
        )
        return
    usual = share if baseline is None or baseline.trained_on is None else _inputs_seen(baseline)
    if share - usual > MOST_MORE_SEEN:
        yield about.fails(
            Code.DATA_TRAINED_ON,
            f"{share:.0%} of the validation examples are in the training data by their inputs, and "
            f"{usual:.0%} in the baseline: the arms did not train on the same data.",
            share=share,
            baseline_share=usual,
        )


def _is_name(identifier: str) -> bool:
    """Whether it names one example. Numbers name rows, and those of the two parts of the data meet
    by chance; digests name a content, which may be that of several examples."""
    return not identifier.isdecimal() and DIGEST_OF_CONTENT.fullmatch(identifier) is None


def about_inputs_seen(records: Iterable[EvidenceRecord]) -> list[Note]:
    """What is to be said where some validation inputs are in the training data too, once."""
    shares = [(_inputs_seen(each), each) for each in records]
    share, record = max(shares, key=lambda each: each[0], default=(0.0, None))
    if record is None or record.examples is None or share <= FEW_SEEN:
        return []
    rows = len(record.examples.ids)
    told = (
        f"About {100 * share:.2g}% of the validation inputs ({round(share * rows):,} of {rows:,}) "
        "are in the training data, too, under other ids. That holds for both arms alike, so they "
        "compare fairly, but new inputs may get worse answers than these metrics say."
    )
    return [Note(Code.DATA_INPUTS_TRAINED_ON, told, {"examples": round(share * rows)})]


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

    Of K equally frequent inputs, a share of 1 - exp(-n/K) repeats among n examples, which tells K;
    a training set that holds D of them has seen D/K of any others. Where some are more frequent,
    fewer than that are seen.
    """
    seen, examples = record.trained_on, record.examples
    if seen is None or examples is None or examples.inputs is None:
        return 0.0
    rows = len(examples.inputs)
    times = np.unique(examples.inputs, return_counts=True)[1]
    repeated = float(times[times > 1].sum())
    most = repeated + 2.0 * np.sqrt(repeated) + 3.0  # about 95% of Poisson counts lie below
    if most >= rows:
        return 1.0
    return min(1.0, -np.log1p(-most / rows) * max(1.0, _distinct(seen.inputs) / rows))


def _distinct(hashes: IntArray) -> float:
    """How many hashes there were, of which the smallest are known."""
    if len(hashes) < MOST_HASHES:
        return float(len(hashes))
    below = (float(hashes[-1]) + 2.0**63) / 2.0**64
    return len(hashes) / below


def _seen(hashes: IntArray, trained: IntArray) -> int:
    """How many of the hashes are among those of the training data, of which the smallest are
    known."""
    if not len(hashes) or not len(trained):
        return 0
    comparable = hashes
    if len(trained) >= MOST_HASHES:
        comparable = hashes[hashes <= trained[-1]]
    if not len(comparable):
        return 0
    share = float(np.isin(comparable, trained).mean())
    return round(share * len(hashes))


def is_flat(losses: FloatArray) -> bool:
    """Whether the losses of all steps do not fall from the first fifth to the last beyond what the
    spread of their means explains, and cannot have fallen by a twentieth either: what is merely
    noisy or short may have learnt.

    One loss for all steps is flat however few there are.
    """
    if len(losses) > 2 and float(np.ptp(losses)) == 0.0:
        return True
    if len(losses) < LEAST_STEPS:
        return False
    first, last = losses[: len(losses) // PART], losses[-(len(losses) // PART) :]
    noise = np.sqrt((first.var(ddof=1) + last.var(ddof=1)) / len(first))
    fall = first.mean() - last.mean()
    return bool(fall <= noise and fall + 2.0 * noise <= LEAST_FALL * abs(first.mean()))


def below_floor(
    arm: str,
    records: Sequence[EvidenceRecord],
    settings: GateSettings,
    values: MetricValues,
) -> Iterator[Reason]:
    """For each guarded metric that the arm's replicates do not reach the floor of, the reason."""
    for metric in settings.guarded:
        guard = settings.metrics[metric]
        if guard.floor is not None:
            yield from _below_declared(arm, metric, guard, records, values)
        elif not guard.reported and guard.measure(metric) in HAVE_A_CONSTANT:
            yield from _no_better_than_constant(arm, metric, guard, records, values)


def _below_declared(
    arm: str,
    metric: str,
    guard: MetricGuard,
    records: Sequence[EvidenceRecord],
    values: MetricValues,
) -> Iterator[Reason]:
    found = [_value(metric, guard, record, values) for record in records]
    known = [value for value in found if value is not None]
    if not known or guard.floor is None:
        return
    mean = float(np.mean(known))
    if guard.better(guard.floor, mean):
        yield failure(
            Code.METRIC_BELOW_FLOOR,
            f"{metric} of arm {arm} is {mean:.5g} on average, and its floor is {guard.floor:.5g}.",
            metric=metric,
            value=mean,
            floor=guard.floor,
        )


def _value(
    metric: str, guard: MetricGuard, record: EvidenceRecord, values: MetricValues
) -> float | None:
    if guard.reported:
        return record.evidence.metrics.get(metric)
    if record.examples is None:
        return None
    try:
        return values.of(guard.measure(metric), record.examples)
    except MetricUndefinedError:
        return None


def _no_better_than_constant(
    arm: str,
    metric: str,
    guard: MetricGuard,
    records: Sequence[EvidenceRecord],
    values: MetricValues,
) -> Iterator[Reason]:
    scored = [record.examples for record in records if record.examples is not None]
    constant = best_constant(metric, scored[0]) if scored else None
    if constant is None:
        return
    try:
        floor = per_example(metric, constant)
        column = np.mean([values.column(metric, each) for each in scored], axis=0)
    except MetricUndefinedError:  # said of the replicates already
        return
    gain = (column - floor) * (1.0 if guard.direction == "higher" else -1.0)
    # One standard error: a model at chance is above it by luck in one experiment of six at most.
    noise = float(gain.std(ddof=1)) / np.sqrt(len(gain))
    if gain.mean() > noise:
        return
    yield failure(
        Code.METRIC_BELOW_FLOOR,
        f"{metric} of arm {arm} is {column.mean():.5g} on average, and one constant answer for all "
        f"examples reaches {floor.mean():.5g}: the models have not learnt anything that shows. "
        f"If that is as good as it gets, declare a floor for {metric}.",
        metric=metric,
        value=float(column.mean()),
        floor=float(floor.mean()),
    )


def best_constant(metric: str, examples: Examples) -> Examples | None:
    """What a model would score that gives the answer that is best for all examples; None where
    that is not known, or any answer is right since there is one class."""
    if examples.targets is not None:
        if metric not in ("mse", "mae"):
            return None
        answer = np.median(examples.targets) if metric == "mae" else examples.targets.mean()
        predictions = np.full(len(examples.targets), float(answer))
        return replace(examples, predictions=predictions)
    classes = examples.scores.shape[1]
    if classes < 2 or metric in ("mse", "mae"):
        return None
    counts = np.bincount(examples.labels, minlength=classes)
    if np.count_nonzero(counts) < 2:
        return None
    shares = counts / counts.sum()
    scores = np.tile(shares, (len(examples.labels), 1))
    return replace(examples, scores=scores, losses=-np.log(shares[examples.labels]))
