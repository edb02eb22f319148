"""Score the registered model on tonight's validation rows."""

from __future__ import annotations

import argparse
from pathlib import Path

import xgboost
from rows import read_rows, scores

from compilegate.job import examples_of, write_examples


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--model-dir", "--data-dir", "--output-dir"):
        parser.add_argument(name, type=Path, required=True)
    args = parser.parse_args()
    registered = xgboost.Booster(model_file=args.model_dir / "model.ubj")
    rows = read_rows(args.data_dir, "validation")
    examples = examples_of(ids=rows.ids, labels=rows.labels, scores=scores(registered, rows))
    write_examples(args.output_dir, examples)
    print(f"scored {len(rows.ids)} rows")


if __name__ == "__main__":
    main()
