"""A script with `compilegate.job`, whose batches come slowly from a generator of its own."""

import time

import torch

from compilegate import job


def batches():
    while True:
        time.sleep(0.02)
        yield torch.randn(8, 32)


torch.manual_seed(0)
model = torch.nn.Linear(32, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
model = job.compile(model)
for batch in job.steps(batches()):
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
