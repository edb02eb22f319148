"""Waits in the middle of a step for something that is not there yet."""

import time

import torch

torch.manual_seed(0)
model = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(1000):
    loss = model(torch.randn(8, 32)).pow(2).mean()
    time.sleep(0.01)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
