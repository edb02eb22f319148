"""Train gradient-boosted trees: one seed of tonight's model."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import xgboost
from rows import read_rows, scores

from compilegate.job import start


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--max_depth", type=int, default=3)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument("--subsample", type=float, default=0.8)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    data = Path(os.environ["SM_CHANNEL_PREPARED"])
    rows = read_rows(data, "train")
    job = start()
    matrix = rows.matrix
    settings = {
        "objective": "binary:logistic",
        "eval_metric": "logloss",
        "tree_method": "hist",
        "seed": job.seed,
        "max_depth": args.max_depth,
        "learning_rate": args.learning_rate,
        "subsample": args.subsample,
    }
    booster = xgboost.Booster(settings, [matrix])
    for number in job.steps(range(args.rounds)):
        booster.update(matrix, number)
        job.loss(booster.eval(matrix).rpartition(":")[2])

    job.save(lambda folder: booster.save_model(folder / "model.ubj"))
    saved = xgboost.Booster(model_file=job.model_folder / "model.ubj")
    held_out = read_rows(data, "validation")
    job.examples(ids=held_out.ids, labels=held_out.labels, scores=scores(saved, held_out))


if __name__ == "__main__":
    main()
