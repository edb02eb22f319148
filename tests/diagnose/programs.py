"""Programs with one planted bottleneck each: `programs.py NAME` trains until it is stopped."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable, Iterator

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from compilegate import job

SMALL = (nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))


def train(
    model: nn.Module,
    batches: Iterable[torch.Tensor],
    optimizer: torch.optim.Optimizer | None = None,
    *,
    read: bool = False,
) -> None:
    """The loop of every program; with `read` it asks for the loss in each step."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs in batches:
        loss = model(inputs).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if read:
            loss.item()


def random(*size: int) -> Iterator[torch.Tensor]:
    while True:
        yield torch.randn(*size)


class Slow(Dataset[torch.Tensor]):
    """Each example takes its time to be made: the steps wait for their batches."""

    def __len__(self) -> int:
        return 2000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.002)
        return torch.full((32,), float(index % 7))


def slow_loader() -> None:
    train(nn.Sequential(*SMALL), DataLoader(Slow(), batch_size=8))


def slow_batches() -> Iterator[torch.Tensor]:
    """As a slow loader, without a DataLoader."""
    for batch in random(8, 32):
        time.sleep(0.02)
        yield batch


def slow_generator() -> None:
    train(nn.Sequential(*SMALL), slow_batches())


def with_a_job() -> None:
    model = nn.Linear(32, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    train(job.compile(model), job.steps(slow_batches()), optimizer)


def one_matmul() -> None:
    """One huge product of matrices, and its two in the backward pass."""
    inputs = torch.randn(384, 1024, requires_grad=True)
    train(nn.Linear(1024, 1024, bias=False), itertools.repeat(inputs), read=True)


class Pointwise(nn.Module):
    """Hundreds of operations on a few numbers each."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(16))
        self.shift = nn.Parameter(torch.zeros(16))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for _ in range(60):
            inputs = torch.tanh(inputs * self.scale + self.shift)
        return inputs


def many_small() -> None:
    train(Pointwise(), random(4, 16), read=True)


class Moving(nn.Module):
    """Operations on each number of large tensors: little to compute, much to move."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(1024) for _ in range(3))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for norm in self.norms:
            inputs = nn.functional.gelu(norm(inputs)) * 1.1 + inputs
        return inputs


def moves_memory() -> None:
    train(Moving(), itertools.repeat(torch.randn(512, 1024)))


class Asking(nn.Module):
    """Looks at a value in every step, and so does its loop."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            inputs = torch.relu(layer(inputs))
            if inputs.abs().max().item() > 1e6:  # asks
                inputs = inputs / 2
        return inputs


def sync_each_step() -> None:
    train(Asking(), random(8, 32), read=True)


def growing_shapes() -> None:
    """Texts that are longer in each batch than in the one before."""
    model = nn.Sequential(nn.Embedding(100, 64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 1))
    train(model, (torch.randint(1, 100, (8, 16 + 2 * step)) for step in range(1000)))


class Scattered(nn.Module):
    """Dozens of small weights, changed one after the other by hundreds of operations."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ParameterList(torch.randn(16) for _ in range(40))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs * torch.stack(list(self.parts)).sum(0)


def host_bound_update() -> None:
    model = Scattered()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, foreach=False)
    train(model, random(32, 16), optimizer)


class Talking(nn.Module):
    """Prints in a compiled model: the compiler leaves its graph at each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(5))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        first, second, third, fourth, fifth = self.layers
        inputs = torch.relu(first(inputs))
        print("first", end=" ")  # breaks
        inputs = torch.relu(second(inputs))
        print("second", end=" ")  # breaks
        inputs = torch.relu(third(inputs))
        print("third", end=" ")  # breaks
        inputs = torch.relu(fourth(inputs))
        print("fourth")  # breaks
        return fifth(inputs)


def breaks() -> None:
    model = torch.compile(Talking(), backend="eager")
    train(model, random(4, 16))  # pyrefly: ignore[bad-argument-type]  a module, not a function


def exchanging() -> tuple[nn.Module, torch.optim.Optimizer, Iterator[torch.Tensor]]:
    """A process that exchanges the gradients of far more weights than it computes with."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    model = nn.Sequential(nn.Embedding(40_000, 64), nn.Linear(64, 1))
    several = DistributedDataParallel(model, gradient_as_bucket_view=True)
    words = torch.randint(0, 40_000, (8, 4))
    return several, torch.optim.SGD(model[1].parameters(), lr=0.001), itertools.repeat(words)


def exchanges_gradients() -> None:
    model, optimizer, batches = exchanging()
    train(model, batches, optimizer)


def exchanges_in_a_job() -> None:
    model, optimizer, batches = exchanging()
    train(job.compile(model), job.steps(batches), optimizer)


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
