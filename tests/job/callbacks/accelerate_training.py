"""A loop in the style of Accelerate's examples, by a few lines more."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from compilegate import job


def train(when: str, mixed_precision: str = "no") -> int:
    """`when` the model is compiled: before `prepare`, or after. Returns the steps taken."""
    torch.manual_seed(0)
    accelerator = Accelerator(
        cpu=True, mixed_precision=mixed_precision, gradient_accumulation_steps=2
    )
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(24, 5, generator=chance)
    data = TensorDataset(x, x[:, :3].argmax(dim=1))
    model: Any = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    if when == "before":
        model = job.compile(model)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if when == "after":
        model = job.compile(model)
    steps = 0
    for _ in range(3):
        model.train()
        for inputs, targets in job.steps(loader, accumulate=2):
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(inputs), targets)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            steps += 1
    model.eval()
    with torch.no_grad():
        logits = model(x)
    job.examples(ids=job.positions(len(x)), logits=logits, labels=data.tensors[1])
    job.save(accelerator.unwrap_model(model, keep_fp32_wrapper=False))
    with torch.no_grad():  # what was unwrapped can still be called
        accelerator.unwrap_model(model)(x)
    return steps
