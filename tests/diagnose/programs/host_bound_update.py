"""Dozens of small weights, changed one after the other by hundreds of operations."""

import torch


class Scattered(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ParameterList(torch.randn(16) for _ in range(40))

    def forward(self, inputs):
        return inputs * torch.stack(list(self.parts)).sum(0)


torch.manual_seed(0)
model = Scattered()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001, foreach=False)
for _ in range(1000):
    loss = model(torch.randn(32, 16)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
