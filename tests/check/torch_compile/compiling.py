"""Pieces of scripts that compile, and what the rules of torch.compile find in them."""

from __future__ import annotations

from compilegate.check.checking import check_paths
from compilegate.check.rules.torch_compile.table import RULES

NAMES = {rule.name for rule in RULES}
HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F
"""
NET = (
    HEAD
    + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x):
        return self.l(x)

    def loss(self, x):
        return self(x).sum()


"""
)
TRAIN = """
def train(model, loader, opt):
    for x, y in loader:
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()


"""


def found(text, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    checked = check_paths([script], ("torch-compile",))
    assert checked.unread == ()
    return [each for each in checked.findings if each.rule in NAMES]
