"""Each example takes its time to be made: the steps wait for their batches."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((32,), float(index % 7)), torch.tensor([float(index % 3)])


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, targets in DataLoader(Slow(), batch_size=8):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
