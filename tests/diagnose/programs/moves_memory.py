"""Operations on each number of large tensors: little to compute, much to move."""

import torch


class Moving(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(1024) for _ in range(3))

    def forward(self, inputs):
        for norm in self.norms:
            inputs = torch.nn.functional.gelu(norm(inputs)) * 1.1 + inputs
        return inputs


torch.manual_seed(0)
model = Moving()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(512, 1024)
for _ in range(1000):
    loss = model(inputs).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
