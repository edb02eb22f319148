"""Texts that are longer in each batch than in the one before."""

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Embedding(100, 64), torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 1)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1000):
    tokens = torch.randint(1, 100, (8, 16 + 2 * step))
    loss = model(tokens).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
