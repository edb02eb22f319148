"""A job of `compilegate.job` in several processes, which exchange more than they compute."""

import torch
from torch.nn.parallel import DistributedDataParallel

from compilegate import job

torch.manual_seed(0)
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Embedding(40_000, 64), torch.nn.Linear(64, 1)),
    gradient_as_bucket_view=True,
)
optimizer = torch.optim.SGD(model.module[1].parameters(), lr=0.001)
model = job.compile(model)
words = torch.randint(0, 40_000, (8, 4))
for batch in job.steps(iter(lambda: words, None)):
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
