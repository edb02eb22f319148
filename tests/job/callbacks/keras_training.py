"""A small Keras model and its training, on whatever Keras runs on."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from compilegate import job


def train(**settings: Any) -> dict[str, Any]:
    """Fit; what Keras itself says of it."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3)])
    model.compile(
        keras.optimizers.SGD(0.1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    x = np.random.default_rng(0).normal(size=(50, 5)).astype("float32")
    y = x[:, :3].argmax(1)
    history = model.fit(
        x[:40],
        y[:40],
        validation_data=(x[40:], y[40:]),
        batch_size=8,
        epochs=3,
        verbose=0,
        callbacks=[job.KerasCallback()],
        **settings,
    ).history
    return {name: [float(each) for each in values] for name, values in history.items()}


if __name__ == "__main__":
    train()
