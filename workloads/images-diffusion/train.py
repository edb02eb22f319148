"""Train a denoising diffusion model: a script of its own, as one brings it along."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from unet import UNet

from compilegate.job import start

EVAL_LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Noise levels at which every held-out crop is judged."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--halvings", type=int, default=2)
    return parser.parse_args()


def images(folder: Path, name: str, device: torch.device) -> tuple[np.ndarray, torch.Tensor]:
    """Ids, and pixels from -1 to 1."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as stored:
        pixels = torch.from_numpy(stored["pixels"]).to(device, torch.float32)
        return stored["ids"], pixels / 127.5 - 1.0


def add_noise(x: torch.Tensor, noise: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
    """On the cosine schedule: level 0 is the image, level 1 is noise."""
    angle = (level * torch.pi / 2)[:, None, None, None]
    return angle.cos() * x + angle.sin() * noise


def main() -> None:
    args = arguments()
    job = start(batch_size=16, learning_rate=2e-3, precision="bf16")
    data = Path(os.environ["SM_CHANNEL_PREPARED"])
    _, train = images(data, "train", job.device)

    network = UNet(args.channels, args.halvings).to(job.device)
    model = job.compile(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=job.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, job.learning_rate, total_steps=args.steps, pct_start=0.1
    )
    # Drawn on the CPU and outside of the model: the same numbers whatever compiles the model.
    chance = torch.Generator().manual_seed(job.seed)
    for step in job.steps(range(args.steps)):
        rows = torch.randint(len(train), (job.batch_size,), generator=chance)
        noise = torch.randn((job.batch_size, *train.shape[1:]), generator=chance).to(job.device)
        level = torch.rand(job.batch_size, generator=chance).to(job.device)
        noisy = add_noise(train[rows.to(job.device)], noise, level)
        with job.autocast():
            predicted = model(noisy, level)
        loss = functional.mse_loss(predicted.float(), noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    job.save(network)
    # All arms evaluate in one place and one precision: Training Compiler keeps the GPU to itself.
    place = job.evaluation_device
    judged = UNet(args.channels, args.halvings)
    judged.load_state_dict({name: each.cpu() for name, each in network.state_dict().items()})
    ids, held_out = images(data, "validation", place)
    with torch.no_grad():
        job.examples(ids=ids, **evaluate(judged.to(place).eval(), held_out))
    job.evaluated(place, "fp32")


def evaluate(model: torch.nn.Module, held_out: torch.Tensor) -> dict[str, torch.Tensor]:
    """For each held-out crop: the error of the predicted noise, and the size of both noises.

    The noise is the same in every job, whatever its arm and seed, so that crops can be paired.
    """
    chance = torch.Generator().manual_seed(0)
    columns = []
    for value in EVAL_LEVELS:
        noise = torch.randn(held_out.shape, generator=chance).to(held_out.device)
        level = torch.full((len(held_out),), value, device=held_out.device)
        predicted = model(add_noise(held_out, noise, level), level).float()
        columns.append([((predicted - noise) ** 2), noise**2, predicted**2])
    losses, targets, predictions = (
        torch.stack([each.mean(dim=(1, 2, 3)) for each in kind]).mean(dim=0).double()
        for kind in zip(*columns)
    )
    return {"losses": losses, "targets": targets**0.5, "predictions": predictions**0.5}


if __name__ == "__main__":
    main()
