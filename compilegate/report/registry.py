"""What a model registry shows of a released model: its metrics, and a card of how it came to be.

`statistics.json` has the shape of Model Monitor's model quality statistics, which SageMaker Studio
draws: one group, named for the kind of prediction, with a value and a standard deviation for each
metric. Confusion matrices have the true class outside and the predicted one inside.
https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-model-quality-metrics.html

`model_card.json` has only what the verdict and its evidence know: what a model is for, and whom it
may harm, is for people to add. It has the schema of a model card without `model_package_details`,
and its texts and names are cut to what that schema takes.
https://docs.aws.amazon.com/sagemaker/latest/dg/model-registry-details.html
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from compilegate.gate.evidence import Replicate
from compilegate.gate.findings import clipped
from compilegate.gate.observations import ArmObservation, Observations, ReplicateObservation
from compilegate.gate.verdict import CandidateVerdict, Verdict
from compilegate.job.evidence import Examples, FloatArray, IntArray
from compilegate.report.remedies import deciding
from compilegate.report.summary import metric_cell, speed_cell

BINARY = "binary_classification_metrics"
MULTICLASS = "multiclass_classification_metrics"
REGRESSION = "regression_metrics"
OTHERS = "other_metrics"
"""Problem type where a model neither sorts nor predicts numbers, as a language model; nothing
draws these."""
MOST_CLASSES = 50
"""Most classes of a confusion matrix."""
UNKNOWN = "NaN"
"""Model Monitor's value for an unknown standard deviation."""
Values = dict[str, float]


def model_quality(
    observations: Observations,
    scored: Mapping[Replicate, Examples],
    released: Replicate,
) -> dict[str, Any]:
    """The metrics of the released replicate; `scored` has the examples of those that left any.

    The standard deviation is that over the seeds of its arm: how much another training would
    differ. Metrics that the workload declares and Model Monitor does not know are in the same
    group, under their own names.
    """
    arm, seed = released
    group, _ = _measured(scored.get(released))
    by_seed: dict[int, Values] = {
        job.seed: dict(job.metrics) for job in observations.replicates if job.arm == arm
    }
    for (name, each), examples in scored.items():
        found, values = _measured(examples)
        if (name, found) == (arm, group):
            by_seed[each] = by_seed.get(each, {}) | values
    metrics: dict[str, Any] = {
        name: {"value": value, "standard_deviation": _spread(name, by_seed)}
        for name, value in sorted(by_seed.get(seed, {}).items())
        if math.isfinite(value)
    }
    if group in (BINARY, MULTICLASS):
        matrix = _confusion(scored[released])
        if len(matrix) <= MOST_CLASSES:
            rows = ({str(i): count for i, count in enumerate(row)} for row in matrix.tolist())
            metrics["confusion_matrix"] = {str(true): row for true, row in enumerate(rows)}
    return {group: metrics}


def _spread(name: str, by_seed: Mapping[int, Values]) -> float | str:
    values = [values[name] for values in by_seed.values() if name in values]
    if len(values) < 2:
        return UNKNOWN
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(np.std(values, ddof=1))
    return spread if math.isfinite(spread) else UNKNOWN


def _measured(examples: Examples | None) -> tuple[str, Values]:
    """The group, and what Model Monitor measures, as far as it says anything of a single model.

    Nothing where rows or classes are not what they say: another seed of the arm may be invalid, and
    must not cost the verdict its files.
    """
    if examples is None or (rows := len(examples.labels)) == 0 or examples.scores.ndim != 2:
        return OTHERS, {}
    labels, (scored, classes) = examples.labels, examples.scores.shape
    targets, predictions = examples.targets, examples.predictions
    if targets is not None and predictions is not None:
        sound = rows == scored == len(targets) == len(predictions)
        return (REGRESSION, _of_numbers(targets, predictions)) if sound else (OTHERS, {})
    if rows != scored or classes < 2 or labels.min() < 0 or labels.max() >= classes:
        return OTHERS, {}
    return BINARY if classes == 2 else MULTICLASS, _of_classes(_confusion(examples))


def _of_numbers(targets: FloatArray, predictions: FloatArray) -> Values:
    truth = np.asarray(targets, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        errors = np.asarray(predictions, dtype=np.float64) - truth
        squared = float(np.mean(errors**2))
        spread = float(np.var(truth))
    values = {"mae": float(np.mean(np.abs(errors))), "mse": squared, "rmse": math.sqrt(squared)}
    return {**values, "r2": 1.0 - squared / spread} if spread > 0 else values


def _confusion(examples: Examples) -> IntArray:
    classes = examples.scores.shape[1]
    matrix = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(matrix, (examples.labels, np.argmax(examples.scores, axis=1)), 1)
    return matrix


def _of_classes(matrix: IntArray) -> Values:
    """The rates of the second of two classes, the positive one; of more classes, averages weighted
    by how many examples each has."""
    right, true, predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    values = {
        "recall": _shares(right, true),
        "precision": _shares(right, predicted),
        "f1": _shares(2 * right, true + predicted),
    }
    accuracy = {"accuracy": float(right.sum() / true.sum())}
    if len(matrix) > 2:
        weights = true / true.sum()
        return accuracy | {f"weighted_{name}": float(weights @ it) for name, it in values.items()}
    negatives = {"false_positive_rate": float(_shares(matrix[:1, 1], true[:1])[0])}
    return accuracy | negatives | {name: float(it[1]) for name, it in values.items()}


def _shares(part: IntArray, whole: IntArray) -> FloatArray:
    """Zero of nothing, as Model Monitor's metrics have it."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


# The card.

LONGEST_NAME, LONGEST_NAMED = 63, 255
"""Characters of an evaluation's name; of a metric's or detail's name, and of a detail."""
LONGEST_NOTE, LONGEST_OBSERVATION, LONGEST_CAVEAT = 1024, 2096, 2048
MOST_FIGURES, MOST_EVALUATIONS = 60, 20
"""The most in one group, and the most candidates: a verdict may have more."""
MOST_CARD = 100_000
"""Characters that a package's card may have."""
_RECIPE = ("compiler", "batch_size", "learning_rate", "precision")
_FIGURES = ("steps", "samples_per_second", "compile_seconds", "train_seconds", "peak_memory_bytes")
Card = dict[str, Any]


def model_card(verdict: Verdict, observations: Observations, quality: Mapping[str, Any]) -> Card:
    """The card of the model that the verdict releases; `quality` is what `model_quality` found.

    Nothing in it names the execution: where nothing has changed, the card is the same.
    """
    released = verdict.decision
    arm = next((each for each in observations.arms if each.arm == released.arm), None)
    key = (released.arm, released.seed)
    jobs = (each for each in observations.replicates if (each.arm, each.seed) == key)
    caveats = [
        f"Bounds hold with a confidence of {verdict.confidence:g}, on this execution's validation "
        "data only.",
        *dict.fromkeys(note.sentence for each in verdict.candidates for note in each.notes),
    ]
    details = {
        "workload": verdict.workload,
        "arm": released.arm,
        "seeds": ", ".join(map(str, verdict.seeds)),
        "data": observations.data,
        **({} if arm is None else {f"environment: {k}": v for k, v in arm.environment.items()}),
    }
    compared = (_compared(verdict, each) for each in verdict.candidates[:MOST_EVALUATIONS])
    evaluations = [_released(verdict, quality), *compared]
    card = {
        "model_overview": {"model_creator": clipped(f"Workload {verdict.workload}", LONGEST_NOTE)},
        "training_details": _training(arm, next(jobs, None), released.seed),
        "evaluation_details": evaluations,
        "additional_information": {
            "caveats_and_recommendations": clipped(" ".join(caveats), LONGEST_CAVEAT),
            "custom_details": _texts(details),
        },
    }
    while len(evaluations) > 1 and len(json.dumps(card, indent=2)) > MOST_CARD:
        evaluations.pop()
    return card


def _training(arm: ArmObservation | None, job: ReplicateObservation | None, seed: int) -> Card:
    figures = {name: getattr(job, name, None) for name in _FIGURES}
    if job is not None and job.loss is not None and job.loss.losses:
        figures["last_training_loss"] = job.loss.losses[-1]
    recipe = {name: getattr(arm, name, None) for name in _RECIPE} | {"seed": seed}
    notes = " ".join(() if job is None else job.notes)
    return {
        **({"training_observations": clipped(notes, LONGEST_NOTE)} if notes else {}),
        "training_job_details": {
            "user_provided_hyper_parameters": [
                {"name": name, "value": text} for name, text in _texts(recipe).items()
            ],
            "user_provided_training_metrics": [
                {"name": name, "value": float(it)} for name, it in figures.items() if it is not None
            ],
        },
    }


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    """What is known of them, as long as the schema takes it."""
    known = {name: str(value) for name, value in values.items() if value not in (None, "")}
    return {clipped(k, LONGEST_NAMED): clipped(v, LONGEST_NAMED) for k, v in known.items()}


def _released(verdict: Verdict, quality: Mapping[str, Any]) -> Card:
    """The metrics of the model itself, on the validation data."""
    figures = []
    for name, each in (item for group in quality.values() for item in group.items()):
        if "value" in each:  # a confusion matrix has none
            spread = each["standard_deviation"]
            shown = "unknown, with one seed" if spread == UNKNOWN else f"{spread:.4g}"
            note = f"standard deviation over the seeds of the arm: {shown}"
            figures.append(_number(name, each["value"], note))
    title = f"Released: {verdict.decision.arm}"
    return _evaluation(title, verdict.decision.sentence, quality=figures)


def _compared(verdict: Verdict, candidate: CandidateVerdict) -> Card:
    """A candidate against the baseline, whichever of them was released."""
    quality, speed = [], []
    for each in candidate.metrics:
        name = each.metric if each.part is None else f"{each.metric} of {each.part}"
        quality.append(_number(f"{name}, baseline", each.baseline))
        quality.append(_number(f"{name}, candidate", each.candidate))
        difference = each.delta.estimate
        quality.append(_number(f"{name}, difference", difference, metric_cell(each).text))
    if (measured := candidate.speed) is not None:
        estimate = measured.speedup.estimate
        speed.append(_number("speed-up", estimate, speed_cell(candidate).text))
    reasons = [reason.sentence for reason in deciding(candidate)]
    observed = " ".join([f"Verdict: {candidate.outcome}.", *reasons])
    title = f"{candidate.arm} against {verdict.baseline.arm}"
    return _evaluation(title, observed, quality=quality, speed=speed)


def _number(name: str, value: float, note: str = "") -> Card:
    number = {"name": clipped(name, LONGEST_NAMED), "type": "number", "value": float(value)}
    return {**number, "notes": clipped(note, LONGEST_NOTE)} if note else number


def _evaluation(name: str, observation: str, **figures: list[Card]) -> Card:
    return {
        "name": clipped(name, LONGEST_NAME),
        "evaluation_observation": clipped(observation, LONGEST_OBSERVATION),
        "metric_groups": [
            {"name": group, "metric_data": data[:MOST_FIGURES]}
            for group, data in figures.items()
            if data
        ],
    }
