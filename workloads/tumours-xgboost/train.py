"""Train gradient-boosted trees: one seed of tonight's model."""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import resource
import time
from pathlib import Path

import numpy as np
import xgboost
from rows import metrics, read_rows, score

from compilegate.job import CompilerRecord, Evidence, SpeedRecord, Steps, write_evidence

STEADY_FROM = 10
"""Rounds that are left out of the speed."""


class RoundClock(xgboost.callback.TrainingCallback):
    """Seconds and training loss of each round."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._began = 0.0

    def before_iteration(self, model: xgboost.Booster, epoch: int, evals_log: dict) -> bool:
        self._began = time.perf_counter()
        return False

    def after_iteration(self, model: xgboost.Booster, epoch: int, evals_log: dict) -> bool:
        self.seconds.append(time.perf_counter() - self._began)
        return False


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--max_depth", type=int, default=3)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument("--subsample", type=float, default=0.8)
    return parser.parse_args()


def main() -> None:
    started = time.perf_counter()
    args = arguments()
    data = Path(os.environ["SM_CHANNEL_PREPARED"])
    rows = read_rows(data, "train")
    clock, history = RoundClock(), {}
    matrix = rows.matrix
    model = xgboost.train(
        {
            "objective": "binary:logistic",
            "eval_metric": "logloss",
            "tree_method": "hist",
            "seed": args.seed,
            "max_depth": args.max_depth,
            "learning_rate": args.learning_rate,
            "subsample": args.subsample,
        },
        matrix,
        num_boost_round=args.rounds,
        evals=[(matrix, "train")],
        evals_result=history,
        verbose_eval=False,
        callbacks=[clock],
    )
    trained = time.perf_counter()
    saved = Path(os.environ["SM_MODEL_DIR"]) / "model.ubj"
    model.save_model(saved)

    examples = score(xgboost.Booster(model_file=saved), read_rows(data, "validation"))
    found = metrics(examples)
    print(" ".join(f"{name}={value:.4f}" for name, value in found.items()), flush=True)
    steady = clock.seconds[STEADY_FROM:]
    evidence = Evidence(
        job=os.environ["TRAINING_JOB_NAME"],
        arm=os.environ["COMPILEGATE_ARM"],
        seed=args.seed,
        recipe={**vars(args), "steps": args.rounds, "batch_size": len(rows.ids)},
        compiler=CompilerRecord(name="eager", ran=False),
        speed=SpeedRecord(
            samples_per_second=len(rows.ids) * len(steady) / sum(steady),
            steady_from=STEADY_FROM,
            train_seconds=trained - started,
            total_seconds=time.perf_counter() - started,
        ),
        metrics=found,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        environment={"python": platform.python_version(), "xgboost": xgboost.__version__},
        digests={
            "data": sha256(*sorted(data.glob("*.npz"))),
            "model": sha256(saved),
        },
    )
    steps = Steps(np.array(history["train"]["logloss"]), np.array(clock.seconds))
    write_evidence(os.environ["SM_OUTPUT_DATA_DIR"], evidence, steps, examples)


def sha256(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    main()
