"""Trains as AWS's Linear Learner image does: a linear model by mini-batches, several at once.

Where no learning rate is given, one model for each of some rates is trained, and the best one
counts, as the image does with its `num_models`. Metrics are printed as the image's log has them.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Callable, Mapping

import numpy

contract: Any = importlib.import_module(
    "contract" if __name__ == "__main__" else f"{__package__}.contract"
)
"""A neighbour of this file, which runs by itself where the package is not installed."""

ALGORITHM = "Linear Learner"
BINARY, MULTICLASS, REGRESSOR = "binary_classifier", "multiclass_classifier", "regressor"
_CRITERIA = (
    *("accuracy", "f_beta", "precision_at_target_recall", "recall_at_target_precision"),
    *("loss_function", "cross_entropy_loss"),
)
_LOSSES = {
    BINARY: ("logistic", "hinge_loss"),
    MULTICLASS: ("softmax_loss",),
    REGRESSOR: (
        *("squared_loss", "absolute_loss", "eps_insensitive_squared_loss"),
        *("eps_insensitive_absolute_loss", "quantile_loss", "huber_loss"),
    ),
}
_PRINTED = {
    "logistic": "binary_classification_cross_entropy_objective",
    "hinge_loss": "binary_classification_hinge_loss_objective",
    "softmax_loss": "multiclass_cross_entropy_objective",
    "squared_loss": "mse_objective",
}
"""What the log calls the objective of a loss; of others NAME_objective."""
_NUMBERS = (
    *("init_sigma", "init_scale", "init_bias", "momentum", "beta_1", "beta_2", "bias_lr_mult"),
    *("bias_wd_mult", "lr_scheduler_step", "lr_scheduler_factor", "lr_scheduler_minimum_lr"),
    *("num_calibration_samples", "num_point_for_scaler", "num_models", "target_column"),
)
_WORDS = (
    *("optimizer", "init_method", "use_lr_scheduler", "unbias_data", "unbias_label"),
    "early_stopping",
)
"""With `_NUMBERS`: what steers how the image searches, which is done its own way here."""
KNOWN = {
    "predictor_type": contract.Choice(BINARY, MULTICLASS, REGRESSOR),
    "feature_dim": contract.Number(None, 1, kind=int),
    "num_classes": contract.Number(None, 3, 1_000_000, int),
    "epochs": contract.Number(15, 1, kind=int),
    "mini_batch_size": contract.Number(1000, 1, kind=int),
    "learning_rate": contract.Number(None),
    "loss": contract.Choice("auto", *(each for kind in _LOSSES.values() for each in kind)),
    "wd": contract.Number(0.0),
    "l1": contract.Number(0.0),
    "use_bias": contract.Choice("true", "false"),
    "normalize_data": contract.Choice("true", "false", "auto"),
    "normalize_label": contract.Choice("auto", "true", "false"),
    "early_stopping_patience": contract.Number(3, 1, kind=int),
    "early_stopping_tolerance": contract.Number(0.001),
    "binary_classifier_model_selection_criteria": contract.Choice(*_CRITERIA),
    "target_precision": contract.Number(0.8, 0, 1),
    "target_recall": contract.Number(0.8, 0, 1),
    "f_beta": contract.Number(1.0),
    "positive_example_weight_mult": contract.Text("1"),
    "balance_multiclass_weights": contract.Choice("false", "true"),
    "accuracy_top_k": contract.Number(3, 1, kind=int),
    "huber_delta": contract.Number(1.0),
    "quantile": contract.Number(0.5, 0, 1),
    "margin": contract.Number(1.0),
    "loss_insensitivity": contract.Number(0.01),
    **{name: contract.Number(None, -numpy.inf) for name in _NUMBERS},
    **{name: contract.Text() for name in _WORDS},
}
_RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)

Loss = Callable[[Any, Any], Any]
"""From scores and labels to each row's loss and its gradient."""


def train(paths: Any) -> None:
    """Train and leave the model; raises JobError."""
    given = paths.told("hyperparameters.json")
    asked = contract.read_hyperparameters(given, KNOWN, ALGORITHM, ("predictor_type",))
    contract.ignored(given, (*_NUMBERS, *_WORDS))
    kind = asked["predictor_type"]
    if asked["loss"] == "auto":
        asked["loss"] = _LOSSES[kind][0]
    if asked["loss"] not in _LOSSES[kind]:
        allowed = ", ".join(_LOSSES[kind])
        raise contract.JobError(f"loss is {asked['loss']}, allowed for a {kind}: {allowed}")
    names = ("train", "validation", "test")
    tables = contract.read_channels(paths, names, asked["feature_dim"], ALGORITHM)
    for name, table in tables.items():
        _check_labels(name, table, asked)
    model = _Model(asked, tables["train"])
    host = os.environ.get("SM_CURRENT_HOST", "algo-1")
    weights, bias = model.fit(tables, host)
    scores = {name: table.features @ weights.T + bias for name, table in tables.items()}
    chosen = "validation" if "validation" in tables else "train"
    threshold = _threshold(asked, scores[chosen], tables[chosen].labels)
    for name, table in tables.items():
        objective = float(loss_of(asked)(scores[name], model.targets(table.labels))[0].mean())
        printed = _PRINTED.get(asked["loss"], f"{asked['loss']}_objective")
        print(f"#quality_metric: host={host}, {name} {printed} <loss>={objective}")
        for metric, value in measures(asked, scores[name], table.labels, threshold).items():
            print(f"#quality_metric: host={host}, {name} {metric} <score>={value}")
            if name != "train":
                print(f"#{name}_score ({host}) : ('{metric}', {value})", flush=True)
    contract.save(
        paths,
        kind="linear-learner",
        predictor=kind,
        is_logistic=asked["loss"] == "logistic",
        weights=weights,
        bias=bias,
        threshold=threshold,
    )


def _check_labels(name: str, table: Any, asked: Mapping[str, Any]) -> None:
    labels, kind = table.labels, asked["predictor_type"]
    if labels is None:
        raise contract.JobError(f"the channel {name} has no labels, which the algorithm needs")
    if kind == BINARY and not numpy.isin(labels, (0, 1)).all():
        raise contract.JobError(f"a label of the channel {name} is neither 0 nor 1")
    if kind != MULTICLASS:
        return
    classes = asked["num_classes"]
    if classes is None:
        raise contract.JobError(f"the predictor_type {MULTICLASS} needs num_classes")
    if (labels != labels.astype(int)).any() or labels.min() < 0 or labels.max() >= classes:
        raise contract.JobError(
            f"a label of the channel {name} is no whole number from 0 to {classes - 1}"
        )


class _Model:
    """A linear model on rows and labels that are brought to one scale while it is trained."""

    def __init__(self, asked: Mapping[str, Any], table: Any) -> None:
        self._asked = asked
        self._kind = asked["predictor_type"]
        width = table.features.shape[1]
        self._mean, self._scale = numpy.zeros(width), numpy.ones(width)
        if asked["normalize_data"] != "false":
            self._mean = table.features.mean(axis=0, dtype=float)
            deviation = table.features.std(axis=0, dtype=float)
            self._scale = numpy.where(deviation > 0, deviation, 1.0)
        if asked["use_bias"] == "false":
            self._mean = numpy.zeros(width)
        self._middle, self._spread = 0.0, 1.0
        if self._kind == REGRESSOR and asked["normalize_label"] != "false":
            self._middle = float(table.labels.mean()) if asked["use_bias"] == "true" else 0.0
            self._spread = float(table.labels.std()) or 1.0

    def targets(self, labels: Any) -> Any:
        """Labels as the loss takes them: a column, or one for each class."""
        if self._kind == MULTICLASS:
            return numpy.eye(self._asked["num_classes"])[labels.astype(int)]
        return labels[:, None].astype(float)

    def fit(self, tables: Mapping[str, Any], host: str) -> tuple[Any, Any]:
        """The weights and the bias for rows as they are."""
        asked = self._asked
        rates = [asked["learning_rate"]] if asked["learning_rate"] else list(_RATES)
        data = {
            name: ((each.features - self._mean) / self._scale, self._scaled(each.labels))
            for name, each in tables.items()
            if name != "test"
        }
        chosen = "validation" if "validation" in data else "train"
        fits = [_Fit(asked, rate, data["train"]) for rate in rates]
        best, best_loss, since = fits[0].copy(), numpy.inf, 0
        for epoch in range(asked["epochs"]):
            losses = []
            for fit in fits:
                fit.epoch(data["train"])
                losses.append({name: fit.loss(each) for name, each in data.items()})
            found = min(range(len(fits)), key=lambda i: losses[i][chosen])
            for name, loss in losses[found].items():
                printed = _PRINTED.get(asked["loss"], f"{asked['loss']}_objective")
                print(
                    f"#quality_metric: host={host}, epoch={epoch}, {name} {printed} <loss>={loss}",
                    flush=True,
                )
            now = losses[found][chosen]
            improved = best_loss - now > asked["early_stopping_tolerance"] * abs(now)
            since = 0 if improved else since + 1
            if now < best_loss:
                best, best_loss = fits[found].copy(), now
            if since > asked["early_stopping_patience"]:
                print(f"Early stop: no better for {since} epochs")
                break
        weights = best[0] / self._scale * self._spread
        return weights, best[1] * self._spread + self._middle - weights @ self._mean

    def _scaled(self, labels: Any) -> Any:
        return (self.targets(labels) - self._middle) / self._spread


class _Fit:
    """One model, trained by Adam at one learning rate."""

    def __init__(self, asked: Mapping[str, Any], rate: float, data: tuple[Any, Any]) -> None:
        rows, targets = data
        self._asked, self._rate = asked, rate
        self._loss = loss_of(asked)
        self._sample_weights = _sample_weights(asked, targets)
        self._random = numpy.random.default_rng(0)
        self._weights = numpy.zeros((targets.shape[1], rows.shape[1] + 1))
        self._moments = numpy.zeros((2, *self._weights.shape))
        self._steps = 0
        self._free = numpy.append(numpy.ones(rows.shape[1]), asked["use_bias"] == "true")

    def epoch(self, data: tuple[Any, Any]) -> None:
        """All rows once, in an order of their own."""
        rows, targets = data
        order = self._random.permutation(len(rows))
        size = min(self._asked["mini_batch_size"], len(rows))
        for start in range(0, len(rows), size):
            part = order[start : start + size]
            batch = rows[part]
            _, gradient = self._loss(self._scores(batch), targets[part])
            gradient = gradient * self._sample_weights[part, None] / len(part)
            step = numpy.column_stack([gradient.T @ batch, gradient.sum(axis=0)])
            shrunk = self._weights * numpy.append(numpy.ones(batch.shape[1]), 0)
            step += self._asked["wd"] * shrunk + self._asked["l1"] * numpy.sign(shrunk)
            self._move(step * self._free)

    def _move(self, gradient: Any) -> None:
        self._steps += 1
        first, second = self._moments
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient**2 - second)
        mean = first / (1 - 0.9**self._steps)
        square = second / (1 - 0.999**self._steps)
        self._weights -= self._rate * mean / (numpy.sqrt(square) + 1e-8)

    def _scores(self, rows: Any) -> Any:
        return rows @ self._weights[:, :-1].T + self._weights[:, -1]

    def loss(self, data: tuple[Any, Any]) -> float:
        """The mean loss of a table."""
        return float(self._loss(self._scores(data[0]), data[1])[0].mean())

    def copy(self) -> tuple[Any, Any]:
        """The weights and the bias."""
        return self._weights[:, :-1].copy(), self._weights[:, -1].copy()


def _sample_weights(asked: Mapping[str, Any], targets: Any) -> Any:
    rows = len(targets)
    weights = numpy.ones(rows)
    if asked["predictor_type"] == BINARY:
        positive = targets[:, 0] == 1
        told = asked["positive_example_weight_mult"]
        if told == "balanced":
            mult = (rows - positive.sum()) / max(1, positive.sum())
        else:
            mult = contract.Number(1.0).read("positive_example_weight_mult", told)
        weights[positive] = mult
    elif asked["predictor_type"] == MULTICLASS and asked["balance_multiclass_weights"] == "true":
        counts = targets.sum(axis=0)
        weights = (targets * (rows / len(counts) / numpy.maximum(1, counts))).sum(axis=1)
    return weights


def loss_of(asked: Mapping[str, Any]) -> Loss:
    """The loss that is asked for."""
    name = asked["loss"]
    within = asked["loss_insensitivity"]
    delta, quantile, margin = asked["huber_delta"], asked["quantile"], asked["margin"]

    def compute(scores: Any, targets: Any) -> tuple[Any, Any]:
        off = scores - targets
        size, side = numpy.abs(off), numpy.sign(off)
        beyond = numpy.maximum(0, size - within)
        if name == "softmax_loss":
            shifted = scores - scores.max(axis=1, keepdims=True)
            total = numpy.log(numpy.exp(shifted).sum(axis=1, keepdims=True))
            return (total - shifted)[targets == 1], numpy.exp(shifted - total) - targets
        if name == "logistic":
            each, slope = numpy.logaddexp(0, scores) - targets * scores, sigmoid(scores) - targets
        elif name == "hinge_loss":
            sign = 2 * targets - 1
            each = numpy.maximum(0, margin - sign * scores)
            slope = -sign * (each > 0)
        elif name == "squared_loss":
            each, slope = off**2, 2 * off
        elif name == "absolute_loss":
            each, slope = size, side
        elif name == "quantile_loss":
            slope = numpy.where(off < 0, -quantile, 1 - quantile)
            each = slope * off
        elif name == "huber_loss":
            near = size <= delta
            each = numpy.where(near, off**2 / 2, delta * (size - delta / 2))
            slope = numpy.where(near, off, delta * side)
        elif name == "eps_insensitive_squared_loss":
            each, slope = beyond**2, 2 * beyond * side
        else:
            each, slope = beyond, side * (beyond > 0)
        return each[:, 0], slope

    return compute


def sigmoid(scores: Any) -> Any:
    """From log odds to a probability."""
    return 0.5 * (1 + numpy.tanh(scores / 2))


# What is measured at the end


def _threshold(asked: Mapping[str, Any], scores: Any, labels: Any) -> float:
    """The score from which on a row is positive, by the criterion that is asked for."""
    middle = 0.0
    criterion = asked["binary_classifier_model_selection_criteria"]
    if asked["predictor_type"] != BINARY or criterion in ("loss_function", "cross_entropy_loss"):
        return middle
    order = numpy.argsort(-scores[:, 0], kind="stable")
    found, truth = scores[order, 0], labels[order]
    hits = numpy.cumsum(truth)
    taken = numpy.arange(1, len(truth) + 1)
    precision, recall = hits / taken, hits / max(1, truth.sum())
    if criterion == "accuracy":
        value = hits + (len(truth) - truth.sum()) - (taken - hits)
    elif criterion == "f_beta":
        value = f_score(precision, recall, asked["f_beta"])
    elif criterion == "precision_at_target_recall":
        value = numpy.where(recall >= asked["target_recall"], precision, -1)
    else:
        value = numpy.where(precision >= asked["target_precision"], recall, -1)
    last_of_score = numpy.append(found[:-1] > found[1:], True)
    best = int(numpy.argmax(numpy.where(last_of_score, value, -numpy.inf)))
    below = found[best + 1] if best + 1 < len(found) else found[best] - 1
    return float((found[best] + below) / 2)


def f_score(precision: Any, recall: Any, beta: float) -> Any:
    """The weighted harmonic mean; 0 where both are 0."""
    below = beta**2 * precision + recall
    return numpy.where(
        below > 0, (1 + beta**2) * precision * recall / numpy.where(below > 0, below, 1), 0.0
    )


def measures(
    asked: Mapping[str, Any], scores: Any, labels: Any, threshold: float
) -> dict[str, float]:
    """The metrics of a table, by the names in the image's log."""
    kind = asked["predictor_type"]
    if kind == REGRESSOR:
        off = scores[:, 0] - labels
        mse = float((off**2).mean())
        spread = float(((labels - labels.mean()) ** 2).mean())
        found = {"mse": mse, "rmse": mse**0.5, "mae": float(numpy.abs(off).mean())}
        found["absolute_loss"] = found["mae"]
        return found if not spread else {**found, "r2": 1 - mse / spread}
    if kind == BINARY:
        positive, truth = scores[:, 0] > threshold, labels == 1
        precision, recall = _precision_and_recall(positive, truth)
        return {
            "binary_classification_accuracy": float((positive == truth).mean()),
            "precision": precision,
            "recall": recall,
            "binary_f_beta": float(f_score(precision, recall, asked["f_beta"])),
            **_roc_auc(scores[:, 0], truth),
        }
    classes = scores.argmax(axis=1)
    pairs = [_precision_and_recall(classes == c, labels == c) for c in range(scores.shape[1])]
    precisions, recalls = (numpy.array(each) for each in zip(*pairs))
    ranks = (scores > scores[numpy.arange(len(labels)), labels.astype(int)][:, None]).sum(axis=1)
    return {
        "multiclass_accuracy": float((classes == labels).mean()),
        "multiclass_top_k_accuracy": float((ranks < asked["accuracy_top_k"]).mean()),
        "dcg": float((1 / numpy.log2(ranks + 2)).mean()),
        "macro_recall": float(recalls.mean()),
        "macro_precision": float(precisions.mean()),
        "macro_f_beta": float(f_score(precisions, recalls, asked["f_beta"]).mean()),
    }


def _precision_and_recall(positive: Any, truth: Any) -> tuple[float, float]:
    hits = (positive & truth).sum()
    return float(hits / max(1, positive.sum())), float(hits / max(1, truth.sum()))


def _roc_auc(scores: Any, truth: Any) -> dict[str, float]:
    """The share of pairs of a positive and a negative row that are in order."""
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if not positives or not negatives:
        return {}
    _, place, counts = numpy.unique(scores, return_inverse=True, return_counts=True)
    ranks = (numpy.cumsum(counts) - (counts - 1) / 2)[place]
    found = (ranks[truth].sum() - positives * (positives + 1) / 2) / (positives * negatives)
    return {"roc_auc_score": float(found)}


if __name__ == "__main__":
    contract.run(train)
