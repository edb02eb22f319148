"""Rows of 64 grey values and a digit become images. A row's part is decided by its own content: no
image of the validation was ever trained on, and equal rows are in one part, once."""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
from pathlib import Path

import numpy as np

VALIDATION_SHARE = 0.4
SIDE, BRIGHTEST = 8, 16.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--output-dir", type=Path, required=True)
    args = parser.parse_args()
    with gzip.open(args.data_dir / "digits.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    parts: dict[str, dict[str, list[str]]] = {"train": {}, "validation": {}}
    for row in rows:
        identity = hashlib.sha256(",".join(row).encode()).hexdigest()
        held_out = int(identity[:8], 16) / 16**8 < VALIDATION_SHARE
        parts["validation" if held_out else "train"][identity[:16]] = row
    for name, found in parts.items():
        ids = sorted(found)
        values = np.array([found[each] for each in ids], dtype=np.float64)
        np.savez(
            args.output_dir / f"{name}.npz",
            ids=np.array(ids),
            # (images, 1, SIDE, SIDE), from 0 to 1
            images=(values[:, :-1] / BRIGHTEST).reshape(-1, 1, SIDE, SIDE).astype(np.float32),
            labels=values[:, -1].astype(np.int64),
        )
        print(f"{name}: {len(ids)} images of {SIDE} x {SIDE}")


if __name__ == "__main__":
    main()
