"""The model looks at a value in every step, and so does the loop."""

import torch


class Asking(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(4))

    def forward(self, inputs):
        for layer in self.layers:
            inputs = torch.relu(layer(inputs))
            if inputs.abs().max().item() > 1e6:
                inputs = inputs / 2
        return inputs


torch.manual_seed(0)
model = Asking()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
total = 0.0
for _ in range(1000):
    loss = model(torch.randn(8, 32)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
