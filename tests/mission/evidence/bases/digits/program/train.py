"""Train a small perceptron on 8 x 8 digits, in the precision of its arm."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from compilegate.job import start

TRAINING, HELD_OUT, EPOCHS = 1_280, 400, 12


def network() -> nn.Module:
    layers: list[nn.Module] = []
    width = 64
    for _ in range(3):
        layers += [nn.Linear(width, 128), nn.LayerNorm(128), nn.GELU()]
        width = 128
    return nn.Sequential(*layers, nn.Linear(width, 10))


def main() -> None:
    job = start()
    with np.load(Path(os.environ["SM_CHANNEL_DATA"]) / "digits.npz") as stored:
        images, labels = torch.from_numpy(stored["x"]), torch.from_numpy(stored["y"])
    train, held_out = slice(0, TRAINING), slice(TRAINING, TRAINING + HELD_OUT)
    job.trained_on(ids=[f"digit-{row}" for row in range(TRAINING)], inputs=images[train].numpy())
    model = job.compile(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=job.learning_rate)
    chance = torch.Generator().manual_seed(job.seed)
    for epoch in range(EPOCHS):
        order = torch.randperm(TRAINING, generator=chance)
        loss = torch.zeros(())
        for rows in job.steps(order.split(job.batch_size)):
            with job.autocast():
                loss = functional.cross_entropy(model(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(f"epoch {epoch + 1} loss {loss.item():.4f}", flush=True)
    model.eval()
    with torch.no_grad(), job.autocast():
        logits = model(images[held_out]).float()
    job.examples(
        ids=[f"digit-{row}" for row in range(TRAINING, TRAINING + HELD_OUT)],
        labels=labels[held_out],
        logits=logits,
        inputs=images[held_out].numpy(),
    )
    job.save(model)


if __name__ == "__main__":
    main()
