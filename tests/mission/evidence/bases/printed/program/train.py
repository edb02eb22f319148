"""Train a small perceptron on 8 x 8 digits, and print what came of it."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

TRAINING, EPOCHS = 1_280, 12


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler")
    parser.add_argument("--batch_size", type=int)
    parser.add_argument("--learning_rate", type=float)
    parser.add_argument("--precision")
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    with np.load(Path(os.environ["SM_CHANNEL_DATA"]) / "digits.npz") as stored:
        images, labels = torch.from_numpy(stored["x"]), torch.from_numpy(stored["y"])
    model = nn.Sequential(
        *[nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU()],
        *[nn.Linear(128, 128), nn.LayerNorm(128), nn.GELU()],
        nn.Linear(128, 10),
    )
    taken = model if args.compiler == "eager" else torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    for _ in range(EPOCHS):
        started = time.perf_counter()
        for rows in torch.randperm(TRAINING).split(args.batch_size):
            loss = functional.cross_entropy(taken(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(f"{TRAINING / (time.perf_counter() - started):.2f} images/s", flush=True)
    with torch.no_grad():
        logits = model(images[TRAINING:])
    correct = (logits.argmax(dim=1) == labels[TRAINING:]).double().mean().item()
    print(f"loss {functional.cross_entropy(logits, labels[TRAINING:]).item():.4f}")
    print(f"Accuracy: {100 * correct:.2f}%")
    torch.save(model.state_dict(), Path(os.environ["SM_MODEL_DIR"]) / "model.pt")


if __name__ == "__main__":
    main()
