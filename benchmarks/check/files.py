"""How long `compilegate check` takes for 500 files.

    python benchmarks/check/files.py [--files 500] [PATH...]

Without PATH it writes a project: packages whose training scripts import helpers, models and data of
one another. The project is checked as the command does it, in a process of its own, for every
compiler. `cpu` is that process's own time, which a busy machine leaves alone; the start of Python
and the import are in it.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGET_SECONDS = 5.0
FILES_OF_A_PACKAGE = 5
_COMMAND = "from compilegate.cli import main; main()"

_MODEL = '''"""Model {n}."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block{n}(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)

    def forward(self, inputs, mask=None):
        hidden = self.norm(inputs)
        mixed, _ = self.attention(hidden, hidden, hidden, attn_mask=mask)
        hidden = inputs + mixed
        return hidden + self.outer(F.gelu(self.inner(hidden)))


class Model{n}(nn.Module):
    def __init__(self, vocabulary, width=256, heads=4, layers=4):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block{n}(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, targets=None):
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        logits = self.head(hidden)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())
'''

_DATA = '''"""Data {n}."""

import torch
from torch.utils.data import DataLoader, Dataset


class Texts{n}(Dataset):
    def __init__(self, tokens, length):
        self.tokens = tokens
        self.length = length

    def __len__(self):
        return len(self.tokens) // self.length

    def __getitem__(self, index):
        start = index * self.length
        piece = self.tokens[start : start + self.length + 1]
        return piece[:-1], piece[1:]


def loaders(tokens, length, batch):
    data = Texts{n}(tokens, length)
    return DataLoader(data, batch_size=batch, shuffle=True), DataLoader(data, batch_size=batch)
'''

_HELPERS = '''"""Records {n}."""

import logging

logger = logging.getLogger(__name__)


class Meter{n}:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, weight=1):
        self.total += value * weight
        self.count += weight

    @property
    def mean(self):
        return self.total / max(self.count, 1)


def report(step, loss, rate):
    logger.info("step %d loss %.4f rate %.2e", step, loss, rate)
'''

_TRAIN = '''"""Training {n}."""

import argparse
import math
import time

import torch

from package{n}.data import loaders
from package{n}.model import Model{n}
from package{n}.records import Meter{n}, report


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def rate_at(step, total, peak):
    if step < total // 20:
        return peak * step / max(total // 20, 1)
    return 0.5 * peak * (1 + math.cos(math.pi * step / total))


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    meter = Meter{n}()
    for tokens, targets in loader:
        _, loss = model(tokens.to(device), targets.to(device))
        meter.update(loss.item(), len(tokens))
    model.train()
    return meter.mean


def train_epoch(model, loader, optimizer, device, args, epoch):
    meter = Meter{n}()
    for step, (tokens, targets) in enumerate(loader):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, len(loader), args.rate)
        tokens, targets = tokens.to(device), targets.to(device)
        _, loss = model(tokens, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        meter.update(loss.item(), len(tokens))
        if step % args.log_every == 0:
            report(step, loss.item(), optimizer.param_groups[0]["lr"])
    return meter.mean


def main():
    args = parsed()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Model{n}(10_000).to(device)
    if args.compile:
        model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, weight_decay=0.1)
    training, validation = loaders(torch.zeros(1_000_000).long(), 128, args.batch)
    began = time.time()
    for epoch in range(args.epochs):
        loss = train_epoch(model, training, optimizer, device, args, epoch)
        print(epoch, loss, evaluate(model, validation, device), time.time() - began)
        torch.save(model.state_dict(), f"epoch-{{epoch}}.pt")


if __name__ == "__main__":
    main()
'''


def write_project(folder: Path, files: int) -> None:
    """Write packages of five files until there are enough."""
    for number in range(-(-files // FILES_OF_A_PACKAGE)):
        package = folder / f"package{number}"
        package.mkdir()
        (package / "__init__.py").write_text("", encoding="utf-8")
        parts = {"model": _MODEL, "data": _DATA, "records": _HELPERS, "train": _TRAIN}
        for name, text in parts.items():
            (package / f"{name}.py").write_text(text.format(n=number), encoding="utf-8")


def measure(paths: list[Path]) -> tuple[str, float, float]:
    """The command's last line, and its seconds on the wall and on the processor."""
    command = [sys.executable, "-c", _COMMAND, "check", "--fail-on", "never"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    ended = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ended.stdout.splitlines()[-1], seconds, cpu


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("paths", nargs="*", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = arguments.paths
        if not paths:
            write_project(Path(folder), arguments.files)
            paths = [Path(folder)]
        rounds = [measure(paths) for _ in range(arguments.rounds)]
    print(
        f"{platform.machine()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )
    print(rounds[0][0])
    print(f"{'round':>5}  {'clock (s)':>9}  {'cpu (s)':>7}")
    for number, (_, seconds, cpu) in enumerate(rounds, start=1):
        print(f"{number:>5}  {seconds:>9.2f}  {cpu:>7.2f}")
    best = min(cpu for _, _, cpu in rounds)
    print(f"{'met' if best < TARGET_SECONDS else 'missed'}: {TARGET_SECONDS:g} s of processor time")


if __name__ == "__main__":
    main()
