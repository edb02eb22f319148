"""Score the registered model on tonight's validation rows."""

from __future__ import annotations

import argparse
from pathlib import Path

import xgboost
from rows import metrics, read_rows, score

from compilegate.job import write_examples


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--model-dir", "--data-dir", "--output-dir"):
        parser.add_argument(name, type=Path, required=True)
    args = parser.parse_args()
    examples = score(
        xgboost.Booster(model_file=args.model_dir / "model.ubj"),
        read_rows(args.data_dir, "validation"),
    )
    write_examples(args.output_dir, examples)
    print(" ".join(f"{name}={value:.4f}" for name, value in metrics(examples).items()))


if __name__ == "__main__":
    main()
