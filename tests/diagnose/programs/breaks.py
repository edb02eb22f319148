"""Prints in a compiled model: the compiler leaves its graph at each of them."""

import torch


class Talking(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(5))

    def forward(self, inputs):
        first, second, third, fourth, fifth = self.layers
        inputs = torch.relu(first(inputs))
        print("first", end=" ")
        inputs = torch.relu(second(inputs))
        print("second", end=" ")
        inputs = torch.relu(third(inputs))
        print("third", end=" ")
        inputs = torch.relu(fourth(inputs))
        print("fourth")
        return fifth(inputs)


torch.manual_seed(0)
model = torch.compile(Talking(), backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(1000):
    loss = model(torch.randn(4, 16)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
