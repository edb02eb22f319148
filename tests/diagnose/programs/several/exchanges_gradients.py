"""Processes that exchange the gradients of far more weights than they compute with."""

import torch
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Embedding(40_000, 64), torch.nn.Linear(64, 1)),
    gradient_as_bucket_view=True,
)
optimizer = torch.optim.SGD(model.module[1].parameters(), lr=0.001)
words = torch.randint(0, 40_000, (8, 4))
for _ in range(200):
    optimizer.zero_grad()
    model(words).pow(2).mean().backward()
    optimizer.step()
