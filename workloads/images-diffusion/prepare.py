"""Cuts images of different sizes into crops of one: resized by the shorter side, cut on a grid."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

SHORTER_SIDE, CROP = 192, 32
HELD_OUT = 4
"""Every fourth crop is for validation, so each image is in both parts but no crop is."""


def crops(path: Path) -> list[np.ndarray]:
    with Image.open(path) as image:
        scale = SHORTER_SIDE / min(image.size)
        size = tuple(max(SHORTER_SIDE, round(side * scale)) for side in image.size)
        pixels = np.asarray(image.convert("RGB").resize(size, Image.Resampling.BICUBIC))
    rows, columns = pixels.shape[0] // CROP, pixels.shape[1] // CROP
    return [
        pixels[row * CROP : (row + 1) * CROP, column * CROP : (column + 1) * CROP]
        for row in range(rows)
        for column in range(columns)
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--output-dir", type=Path, required=True)
    args = parser.parse_args()
    parts: dict[str, tuple[list[str], list[np.ndarray]]] = {
        "train": ([], []),
        "validation": ([], []),
    }
    for path in sorted(args.data_dir.iterdir()):
        for number, crop in enumerate(crops(path)):
            ids, pixels = parts["train" if number % HELD_OUT else "validation"]
            ids.append(f"{path.stem}-{number}")
            pixels.append(crop)
    for name, (ids, pixels) in parts.items():
        # uint8, (crops, 3, CROP, CROP)
        stacked = np.stack(pixels).transpose(0, 3, 1, 2)
        np.savez(args.output_dir / f"{name}.npz", ids=np.array(ids), pixels=stacked)
        print(f"{name}: {len(ids)} crops of {CROP} x {CROP}")


if __name__ == "__main__":
    main()
