"""Write images/digits.npz: scikit-learn's handwritten digits in another order."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

if __name__ == "__main__":
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    folder = Path(__file__).parent / "images"
    folder.mkdir(exist_ok=True)
    np.savez(
        folder / "digits.npz",
        x=(digits.data[order] / 16).astype(np.float32),
        y=digits.target[order].astype(np.int64),
    )
