"""Classify digits on a GPU, on several, or on a CPU: a small model of everyday operations."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from compilegate import job

CLASSES = 10


class Digits(nn.Module):
    """A convolution cuts the image into 16 patches, which two transformer blocks look at."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.patches = nn.Sequential(
            nn.Conv2d(1, width // 2, 3, padding=1),
            nn.GroupNorm(4, width // 2),  # of one example: shares of a batch make the same steps
            nn.ReLU(),
            nn.Conv2d(width // 2, width, 2, stride=2),
        )
        self.places = nn.Parameter(torch.zeros(16, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, 4, 4 * width, dropout=dropout, batch_first=True, norm_first=True
            )
            for _ in range(2)
        )
        self.head = nn.Linear(width, CLASSES)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """(batch, 1, 8, 8) pixels to (batch, CLASSES) logits."""
        tokens = self.patches(pixels).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(tokens.mean(dim=1))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--tf32", choices=["on", "off"], default="on")
    return parser.parse_args()


def digits(name: str, device: torch.device) -> tuple[np.ndarray, torch.Tensor, torch.Tensor]:
    """Ids, pixels and labels."""
    folder = Path(os.environ["SM_CHANNEL_PREPARED"])
    with np.load(folder / f"{name}.npz", allow_pickle=False) as stored:
        pixels, labels = (torch.from_numpy(stored[key]).to(device) for key in ("pixels", "labels"))
        return stored["ids"], pixels, labels


def main() -> None:
    args = arguments()
    torch.set_float32_matmul_precision("high" if args.tf32 == "on" else "highest")
    torch.backends.cudnn.allow_tf32 = args.tf32 == "on"
    run = job.start(batch_size=64, learning_rate=1e-3)
    job.settings(tf32=args.tf32 == "on", epochs=args.epochs, width=args.width)
    if not run.world.alone:
        if run.device.type == "cuda":
            torch.cuda.set_device(run.device)
        torch.distributed.init_process_group("nccl" if run.device.type == "cuda" else "gloo")

    _, pixels, labels = digits("train", run.device)
    network = Digits(args.width, args.dropout).to(run.device)
    model = job.distributed(job.compile(network))
    if not run.world.first:
        torch.manual_seed(run.seed + run.world.rank)  # dropout masks of its own
    optimizer = torch.optim.AdamW(model.parameters(), lr=run.learning_rate, weight_decay=0.01)
    together = run.batch_size * run.world.size
    per_epoch = len(labels) // together
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, run.learning_rate, total_steps=args.epochs * per_epoch, pct_start=0.2
    )
    scaler = torch.amp.GradScaler(run.device.type, enabled=run.precision == "fp16")
    chance = torch.Generator().manual_seed(run.seed)  # the same order in every arm and process
    for step in job.steps(range(args.epochs * per_epoch)):
        if step % per_epoch == 0:
            order = torch.randperm(len(labels), generator=chance).to(run.device)
        first = step % per_epoch * together + run.world.rank * run.batch_size
        rows = order[first : first + run.batch_size]
        with run.autocast():
            loss = functional.cross_entropy(model(pixels[rows]).float(), labels[rows])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    if run.world.first:
        evaluate(run, network)  # in this process alone: the others are not asked for anything
        job.save(network)
    if not run.world.alone:
        torch.distributed.destroy_process_group()


def evaluate(run: job.Job, model: nn.Module) -> None:
    """What the model makes of digits that it was not shown."""
    ids, pixels, labels = digits("validation", run.device)
    model.eval()
    with torch.no_grad(), run.autocast():
        job.examples(ids=ids, labels=labels, logits=model(pixels).float())


if __name__ == "__main__":
    main()
