"""As a slow loader, without a DataLoader: a generator reads and waits."""

import time

import torch


def batches():
    while True:
        time.sleep(0.02)
        yield torch.randn(8, 32), torch.randn(8, 1)


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, targets in batches():
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
