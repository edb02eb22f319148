"""The prepared rows, and what a model says of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xgboost

from compilegate.job import Examples


@dataclass(frozen=True)
class Rows:
    """One part of the data."""

    ids: np.ndarray
    features: np.ndarray
    """(rows, 30) measurements."""
    labels: np.ndarray
    """(rows,) 1 is benign."""

    @property
    def matrix(self) -> xgboost.DMatrix:
        return xgboost.DMatrix(self.features, self.labels)


def read_rows(folder: Path, name: str) -> Rows:
    with np.load(folder / f"{name}.npz", allow_pickle=False) as stored:
        return Rows(stored["ids"], stored["features"], stored["labels"])


def score(model: xgboost.Booster, rows: Rows) -> Examples:
    """Probabilities and losses of each row, as the gate reads them."""
    benign = np.clip(model.predict(rows.matrix).astype(np.float64), 1e-7, 1.0 - 1e-7)
    scores = np.stack([1.0 - benign, benign], axis=1)
    likelihood = scores[np.arange(len(scores)), rows.labels]
    return Examples(ids=rows.ids, labels=rows.labels, scores=scores, losses=-np.log(likelihood))


def metrics(examples: Examples) -> dict[str, float]:
    right = examples.scores.argmax(axis=1) == examples.labels
    return {"accuracy": float(right.mean()), "log_loss": float(examples.losses.mean())}
