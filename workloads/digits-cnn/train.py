"""Train a small convolutional network: a script of its own, as one brings it along."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from compilegate.job import start


class Net(nn.Module):
    """(batch, 1, 8, 8) images in, (batch, 10) logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.hidden = nn.Linear(64 * 4 * 4, 128)
        self.out = nn.Linear(128, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.conv1(images))
        x = functional.relu(self.conv2(x))
        x = functional.max_pool2d(x, 2).flatten(1)
        return self.out(functional.relu(self.hidden(x)))


def images(
    folder: Path, name: str, device: torch.device
) -> tuple[np.ndarray, torch.Tensor, torch.Tensor]:
    """Ids, images and labels."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as stored:
        x, y = (torch.from_numpy(stored[each]).to(device) for each in ("images", "labels"))
        return stored["ids"], x, y


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    epochs = parser.parse_args().epochs
    job = start(batch_size=64, learning_rate=1e-3)
    data = Path(os.environ["SM_CHANNEL_PREPARED"])
    _, train, labels = images(data, "train", job.device)

    model = job.compile(Net().to(job.device))
    optimizer = torch.optim.Adam(model.parameters(), lr=job.learning_rate)
    # Drawn on the CPU: the same order whatever compiles the model.
    chance = torch.Generator().manual_seed(job.seed)
    for epoch in range(epochs):
        order = torch.randperm(len(train), generator=chance).to(job.device)
        loss = torch.zeros(())
        for rows in job.steps(order.split(job.batch_size)):
            loss = functional.cross_entropy(model(train[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(f"epoch {epoch + 1} loss {loss.item():.4f}", flush=True)

    ids, held_out, truth = images(data, "validation", job.device)
    with torch.no_grad():
        job.examples(ids=ids, labels=truth, logits=model.eval()(held_out))
    job.save(model)


if __name__ == "__main__":
    main()
