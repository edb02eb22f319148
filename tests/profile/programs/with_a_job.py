"""A script with `compilegate.job`, whose texts are padded to one length that few of them have."""

import torch

from compilegate import job


class Texts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(100, 32)
        self.score = torch.nn.Linear(32, 1)

    def forward(self, input_ids, attention_mask):
        words = self.words(input_ids) * attention_mask[..., None]
        return self.score(words.sum(1))


def batches():
    draw = torch.Generator().manual_seed(0)
    while True:
        lengths = torch.randint(4, 17, (8,), generator=draw)
        lengths[0] = 60
        mask = (torch.arange(64) < lengths[:, None]).float()
        yield {"input_ids": torch.ones(8, 64, dtype=torch.int64), "attention_mask": mask}


torch.manual_seed(0)
model = Texts()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
model = job.compile(model)
for batch in job.steps(batches()):
    optimizer.zero_grad()
    model(**batch).pow(2).mean().backward()
    optimizer.step()
