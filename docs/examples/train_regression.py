"""A training program of one's own whose evidence the gate judges: it predicts a number.

    PYTHONPATH=. python docs/examples/train_regression.py loop 1 evidence/loop--1

The arm `loop` takes the gradient example by example, `matrix` in one product: the same arithmetic,
faster. What stands for a compiler here can be any name, as long as the evidence says that it ran.
"""

from __future__ import annotations

import hashlib
import platform
import sys
import time

import numpy as np

from compilegate.job import (
    CompilerRecord,
    Evidence,
    Examples,
    SpeedRecord,
    Steps,
    write_evidence,
)

BATCH_SIZE, STEPS, STEADY_FROM, RATE, FEATURES = 64, 120, 20, 0.02, 16


def main(arm: str, seed: int, output: str) -> None:
    """Train one replicate of the arm, and write its evidence below `output`."""
    began = time.perf_counter()
    data = np.random.default_rng(0)  # the same for every arm and seed
    features = data.normal(size=(5_000, FEATURES)).astype(np.float32)
    truth = data.normal(size=FEATURES).astype(np.float32)
    targets = features @ truth + data.normal(0.0, 0.3, len(features)).astype(np.float32)
    weights = np.random.default_rng(seed).normal(0.0, 0.1, FEATURES).astype(np.float32)

    order = np.random.default_rng([seed, 1])
    losses, seconds = [], []
    for _ in range(STEPS):
        started = time.perf_counter()
        batch = order.integers(0, 4_000, BATCH_SIZE)
        errors, gradient = GRADIENTS[arm](features[batch], targets[batch], weights)
        weights -= RATE * gradient
        losses.append(float(np.mean(errors**2)))
        seconds.append(time.perf_counter() - started)

    held_out = slice(4_000, None)
    predictions = features[held_out] @ weights
    errors = predictions - targets[held_out]
    steady = seconds[STEADY_FROM:]
    evidence = Evidence(
        job=f"{arm}-{seed}",
        arm=arm,
        seed=seed,
        recipe={
            "batch_size": BATCH_SIZE,
            "learning_rate": RATE,
            "precision": "fp32",
            "steps": STEPS,
        },
        compiler=CompilerRecord(
            name="eager" if arm == "loop" else arm,
            ran=arm != "loop",
            proof={} if arm == "loop" else {"products": STEPS},  # whatever shows that it ran
            graphs=0 if arm == "loop" else 1,
        ),
        speed=SpeedRecord(
            samples_per_second=BATCH_SIZE * len(steady) / sum(steady),
            steady_from=STEADY_FROM,
            train_seconds=sum(seconds),
            total_seconds=time.perf_counter() - began,
        ),
        metrics={"mse": float(np.mean(errors**2)), "mae": float(np.mean(abs(errors)))},
        environment={"numpy": np.__version__, "cpu": platform.processor() or platform.machine()},
        digests={
            "data": hashlib.sha256(features.tobytes() + targets.tobytes()).hexdigest(),
            "model": hashlib.sha256(weights.tobytes()).hexdigest(),
        },
    )
    examples = Examples(
        ids=np.array([f"row-{row}" for row in range(4_000, 5_000)]),
        labels=np.zeros(1_000, dtype=np.int64),
        scores=np.empty((1_000, 0)),  # no classes: targets and predictions take their place
        losses=errors**2,
        targets=targets[held_out],
        predictions=predictions,
    )
    write_evidence(output, evidence, Steps(np.array(losses), np.array(seconds)), examples)


def _by_example(
    features: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    errors = np.array([row @ weights for row in features]) - targets
    gradient = np.zeros_like(weights)
    for error, row in zip(errors, features, strict=True):
        gradient += 2 * error * row / len(targets)
    return errors, gradient


def _by_matrix(
    features: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    errors = features @ weights - targets
    return errors, 2 * features.T @ errors / len(targets)


GRADIENTS = {"loop": _by_example, "matrix": _by_matrix}

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
