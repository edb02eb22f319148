"""The prepared rows, and what a model says of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xgboost


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


def scores(model: xgboost.Booster, rows: Rows) -> np.ndarray:
    """(rows, 2) the probabilities of malignant and benign."""
    benign = np.clip(model.predict(rows.matrix).astype(np.float64), 1e-7, 1.0 - 1e-7)
    return np.stack([1.0 - benign, benign], axis=1)
