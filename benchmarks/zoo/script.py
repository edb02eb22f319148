"""The training script of every architecture: an ordinary loop, and the five lines."""

from __future__ import annotations

import torch

from benchmarks.zoo.architecture import Architecture
from benchmarks.zoo.truth import SEED, autocast, batches, seed
from compilegate import job

STEPS = 10


def train(architecture: Architecture, precision: str) -> None:
    """Train, evaluate and save; the job's settings are in the environment."""
    loader = batches(architecture, STEPS)
    seed(SEED)
    models = tuple(job.compile(each) for each in architecture.models())
    optimizers = [torch.optim.AdamW(each.parameters(), lr=1e-3) for each in models]
    for batch in job.steps(loader):
        for loss, optimizer in zip(architecture.losses, optimizers, strict=True):
            optimizer.zero_grad()
            with autocast(precision):
                value = loss(*models, batch)
            value.backward()
            optimizer.step()
    for each in models:
        each.eval()
    job.metrics(loss=architecture.losses[0](*models, loader[0]))
    job.save(models[0])
    job.finish()
