"""One huge product of matrices, and its two in the backward pass."""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(1024, 1024, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
inputs = torch.randn(384, 1024, requires_grad=True)
while True:
    loss = model(inputs).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    loss.item()
