"""Digits as arrays: 1,797 images of 8 x 8, every fourth for validation."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

HELD_OUT = 4


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--output-dir", type=Path, required=True)
    args = parser.parse_args()
    rows = np.loadtxt(args.data_dir / "digits.csv.gz", delimiter=",", dtype=np.float32)
    held_out = np.arange(len(rows)) % HELD_OUT == 0
    for name, part in (("train", ~held_out), ("validation", held_out)):
        np.savez(
            args.output_dir / f"{name}.npz",
            ids=np.flatnonzero(part).astype(str),
            pixels=rows[part, :64].reshape(-1, 1, 8, 8) / 16,  # (images, 1, 8, 8), from 0 to 1
            labels=rows[part, 64].astype(np.int64),
        )
        print(f"{name}: {part.sum()} digits")


if __name__ == "__main__":
    main()
