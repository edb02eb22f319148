"""Train a denoising diffusion model: a script of its own, as one brings it along.

What Compilegate asks of it: the five arguments of the arm, the channel `prepared`, the model in
SM_MODEL_DIR, and evidence of what was measured (`evidence.py`).
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
from evidence import Measured, write
from safetensors.torch import save_file
from torch.nn import functional
from unet import UNet

EVAL_LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Noise levels at which every held-out crop is judged."""
STARTED = time.perf_counter()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", choices=["eager", "inductor"], default="eager")
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--seed", type=int, default=0)
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
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = Path(os.environ["SM_CHANNEL_PREPARED"])
    _, train = images(data, "train", device)

    model = UNet(args.channels, args.halvings).to(device)
    forward = model
    if args.compiler == "inductor":
        # Past its limit of recompilations torch would go on in eager mode, without a word.
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        forward = torch.compile(model, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, args.learning_rate, total_steps=args.steps, pct_start=0.1
    )
    mixed = torch.autocast(device.type, torch.bfloat16, enabled=args.precision == "bf16")

    # Drawn on the CPU and outside of the model: the same numbers whatever compiles the model.
    chance = torch.Generator().manual_seed(args.seed)
    measured = Measured()
    training_began = time.perf_counter()
    for step in range(args.steps):
        began = time.perf_counter()
        rows = torch.randint(len(train), (args.batch_size,), generator=chance)
        noise = torch.randn((args.batch_size, *train.shape[1:]), generator=chance).to(device)
        level = torch.rand(args.batch_size, generator=chance).to(device)
        noisy = add_noise(train[rows.to(device)], noise, level)
        with mixed:
            predicted = forward(noisy, level)
        loss = functional.mse_loss(predicted.float(), noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        measured.step(loss.item(), time.perf_counter() - began)
        if step % 50 == 0:
            print(f"step {step} loss {measured.losses[-1]:.4f}", flush=True)
    measured.train_seconds = time.perf_counter() - training_began

    weights = Path(os.environ["SM_MODEL_DIR"]) / "model.safetensors"
    save_file(model.state_dict(), weights)
    ids, held_out = images(data, "validation", device)
    examples = evaluate(model.eval(), held_out, mixed)
    measured.total_seconds = time.perf_counter() - STARTED
    write(args, measured, ids=ids, data=data, weights=weights, device=device, **examples)


@torch.no_grad()
def evaluate(
    model: torch.nn.Module, held_out: torch.Tensor, mixed: torch.autocast
) -> dict[str, np.ndarray]:
    """For each held-out crop: the error of the predicted noise, and the size of both noises.

    The noise is the same in every job, whatever its arm and seed, so that crops can be paired.
    """
    chance = torch.Generator().manual_seed(0)
    columns = []
    for value in EVAL_LEVELS:
        noise = torch.randn(held_out.shape, generator=chance).to(held_out.device)
        level = torch.full((len(held_out),), value, device=held_out.device)
        with mixed:
            predicted = model(add_noise(held_out, noise, level), level).float()
        columns.append([((predicted - noise) ** 2), noise**2, predicted**2])
    losses, targets, predictions = (
        torch.stack([each.mean(dim=(1, 2, 3)) for each in kind]).mean(dim=0).double().cpu().numpy()
        for kind in zip(*columns, strict=True)
    )
    return {"losses": losses, "targets": targets**0.5, "predictions": predictions**0.5}


if __name__ == "__main__":
    main()
