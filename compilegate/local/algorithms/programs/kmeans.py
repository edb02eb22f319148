"""Trains as AWS's K-Means image does: `k` centres, by Lloyd's method from spread-out beginnings.

Only the data is the algorithm's contract: the image looks for more centres on a stream of batches
and reduces them; here all rows are in memory, so what it does last is done at once.
"""

from __future__ import annotations

import importlib
import json
import os
from typing import Any

import numpy

contract: Any = importlib.import_module(
    "contract" if __name__ == "__main__" else f"{__package__}.contract"
)
"""A neighbour of this file, which runs by itself where the package is not installed."""

ALGORITHM = "K-Means"
KNOWN = {
    "k": contract.Number(None, 2, kind=int),
    "feature_dim": contract.Number(None, 1, kind=int),
    "epochs": contract.Number(1, 1, kind=int),
    "eval_metrics": contract.Text('["msd"]'),
    "extra_center_factor": contract.Number(None, 1, kind=int),
    "force_dense": contract.Choice("true", "false"),
    "half_life_time_size": contract.Number(0, 0, kind=int),
    "init_method": contract.Choice("random", "kmeans++"),
    "local_lloyd_init_method": contract.Choice("kmeans++", "random"),
    "local_lloyd_max_iter": contract.Number(300, 1, kind=int),
    "local_lloyd_num_trials": contract.Number(3, 1, kind=int),
    "local_lloyd_tol": contract.Number(0.0001, 0, 1),
    "mini_batch_size": contract.Number(5000, 1, kind=int),
}
_ELSEWHERE = ("epochs", "extra_center_factor", "half_life_time_size", "init_method")
_CHUNK = 1 << 22


def train(paths: Any) -> None:
    """Train and leave the model; raises JobError."""
    given = paths.told("hyperparameters.json")
    asked = contract.read_hyperparameters(given, KNOWN, ALGORITHM, ("k",))
    metrics = _metrics(asked["eval_metrics"])
    contract.ignored(given, _ELSEWHERE)
    dim = asked["feature_dim"]
    tables = contract.read_channels(paths, ("train", "test"), dim, ALGORITHM)
    rows = tables["train"].features.astype(float)
    if len(rows) < asked["k"]:
        raise contract.JobError(f"k is {asked['k']}, but the channel train has {len(rows)} rows")
    random = numpy.random.default_rng(0)
    trials = [_trial(rows, asked, random) for _ in range(asked["local_lloyd_num_trials"])]
    centroids = min(trials, key=lambda each: each[1])[0]
    host = os.environ.get("SM_CURRENT_HOST", "algo-1")
    for name, table in tables.items():
        squares = nearest(table.features.astype(float), centroids)[1]
        values = {"msd": float(squares.mean()), "ssd": float(squares.sum())}
        for metric in metrics:
            print(f"#quality_metric: host={host}, {name} {metric} <loss>={values[metric]}")
            if name == "test":
                print(f"#test_score ({host}) : ('{metric}', {values[metric]})", flush=True)
    contract.save(paths, kind="k-means", centroids=centroids)


def _metrics(text: str) -> list[str]:
    try:
        names = json.loads(text.replace("'", '"'))
    except ValueError:
        names = [text]
    names = names if isinstance(names, list) else [names]
    for name in names:
        if name not in ("msd", "ssd"):
            raise contract.JobError(f"eval_metrics has {name!r}, allowed: msd, ssd")
    return names


def _trial(rows: Any, asked: Any, random: Any) -> tuple[Any, float]:
    """One run of Lloyd's method: the centres, and the mean square distance to them."""
    if asked["local_lloyd_init_method"] == "random":
        centroids = rows[random.choice(len(rows), asked["k"], replace=False)]
    else:
        centroids = _spread(rows, asked["k"], random)
    before = numpy.inf
    for _ in range(asked["local_lloyd_max_iter"]):
        closest, squares = nearest(rows, centroids)
        now = float(squares.mean())
        counts = numpy.bincount(closest, minlength=len(centroids))
        sums = numpy.zeros_like(centroids)
        numpy.add.at(sums, closest, rows)
        filled = counts > 0
        centroids = centroids.copy()
        centroids[filled] = sums[filled] / counts[filled, None]
        if before - now <= asked["local_lloyd_tol"] * now:
            break
        before = now
    return centroids, float(nearest(rows, centroids)[1].mean())


def _spread(rows: Any, k: int, random: Any) -> Any:
    """k-means++: each next centre is likelier the farther it is from those before."""
    chosen = [rows[random.integers(len(rows))]]
    squares = ((rows - chosen[0]) ** 2).sum(axis=1)
    for _ in range(k - 1):
        total = squares.sum()
        odds = squares / total if total > 0 else None
        chosen.append(rows[random.choice(len(rows), p=odds)])
        squares = numpy.minimum(squares, ((rows - chosen[-1]) ** 2).sum(axis=1))
    return numpy.array(chosen)


def nearest(rows: Any, centroids: Any) -> tuple[Any, Any]:
    """For each row the closest centre and its square distance."""
    step = max(1, _CHUNK // max(1, centroids.size))
    closest, squares = [], []
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        apart = ((part[:, None, :] - centroids[None]) ** 2).sum(axis=2)
        closest.append(apart.argmin(axis=1))
        squares.append(apart.min(axis=1))
    return numpy.concatenate(closest), numpy.concatenate(squares)


if __name__ == "__main__":
    contract.run(train)
