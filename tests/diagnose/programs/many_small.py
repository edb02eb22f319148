"""Hundreds of operations on a few numbers each."""

import torch


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(16))
        self.shift = torch.nn.Parameter(torch.zeros(16))

    def forward(self, inputs):
        for _ in range(60):
            inputs = torch.tanh(inputs * self.scale + self.shift)
        return inputs


torch.manual_seed(0)
model = Small()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(1000):
    loss = (model(torch.randn(4, 16)) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if loss.item() > 1e9:
        break
