"""Small models of many kinds, and calls of them as a script's first steps leave them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from compilegate.job.compilers import Compiler, load_compiler
from compilegate.job.probes.capture import Compiled, await_cotangents

Batch = tuple[Any, ...]


class Plain(Compiler):
    """A compiler that returns what it is given, or what `change` makes of it."""

    shares_random_numbers = True

    def __init__(self, change: Callable[[Any], Any] = lambda function: function) -> None:
        self.change = change
        self.counted = 1

    def compile(self, function: Callable[..., Any], model: Any) -> Callable[..., Any]:
        return self.change(function)

    def graphs(self) -> int:
        return self.counted


def states() -> list[bytes]:
    """Those of all random generators."""
    kind, keys, place, *rest = np.random.get_state(legacy=True)
    of_numpy = repr((kind, keys.tolist(), place, rest)).encode()
    return [repr(random.getstate()).encode(), of_numpy, bytes(torch.get_rng_state().tolist())]


def bits(tensor: Tensor) -> tuple[Any, ...]:
    """Its bytes, so that -0.0 is not 0.0 and NaN is itself."""
    flat = tensor.detach().contiguous().reshape(-1)
    return str(tensor.dtype), tuple(tensor.shape), flat.view(torch.uint8).numpy().tobytes()


class Perceptron(nn.Module):
    """Returns its loss in a dictionary, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 10)
        self.square = nn.Linear(10, 10)
        self.activation = nn.GELU()
        self.last = nn.Linear(10, 3)

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        hidden = torch.tanh(self.first(inputs))
        hidden = hidden + self.activation(self.square(hidden))
        logits = self.last(hidden)
        return {"loss": functional.cross_entropy(logits, labels), "logits": logits}

    @staticmethod
    def batch() -> Batch:
        return torch.randn(16, 6), torch.randint(0, 3, (16,))


class Convolutions(nn.Module):
    """Batch normalisation, a maximum, and a linear end."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(2, 6, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.activation = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.plain = nn.Conv2d(6, 4, 1)
        self.end = nn.Linear(4 * 9, 3)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.activation(self.norm(self.convolution(images)))
        return self.end(self.plain(self.pool(hidden)).flatten(1))

    @staticmethod
    def batch() -> Batch:
        return (torch.randn(12, 2, 6, 6),)


class Attention(nn.Module):
    """One head, with a causal mask; its weights are the softmax module's own output."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.queries, self.keys = nn.Linear(width, width // 2), nn.Linear(width, width // 2)
        self.values = nn.Linear(width, width)
        self.weights = nn.Softmax(-1)
        self.dropout = nn.Dropout(0.2)

    def forward(self, hidden: Tensor) -> Tensor:
        scores = (
            self.queries(hidden) @ self.keys(hidden).transpose(-2, -1) / hidden.shape[-1] ** 0.5
        )
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        weights = self.weights(scores.masked_fill(future, -1e4))
        return self.dropout(weights @ self.values(hidden))


class Language(nn.Module):
    """A transformer of one layer whose embedding is tied to its output."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.norm = nn.LayerNorm(8)
        self.attention = Attention(8)
        self.output = nn.Linear(8, 20, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.embedding(tokens) * 0.1
        hidden = hidden + self.attention(self.norm(hidden))
        logits = self.output(hidden)
        return logits, functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        )

    @staticmethod
    def batch() -> Batch:
        return (torch.randint(0, 20, (4, 7)),)


class Cell(nn.Module):
    """A gated unit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.new = nn.Linear(2 * width, width), nn.Linear(2 * width, width)

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        both = torch.cat([inputs, state], -1)
        gate = torch.sigmoid(self.gate(both))
        return gate * state + torch.tanh(self.new(both))


class Recurrent(nn.Module):
    """Three steps of a cell, of which the state is an argument and a result."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell(6)
        self.end = nn.Linear(6, 2)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        for moment in range(inputs.shape[1]):
            state = self.cell(inputs[:, moment], state)
        return self.end(state), state

    @staticmethod
    def batch() -> Batch:
        return torch.randn(8, 3, 6), torch.zeros(8, 6)


class Up(nn.Module):
    """Twice as large."""

    def forward(self, image: Tensor) -> Tensor:
        return functional.interpolate(image, scale_factor=2.0, mode="nearest")


class UNet(nn.Module):
    """Down and up again, beside a connection that skips both."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Conv2d(2, 6, 3, padding=1)
        self.down = nn.Conv2d(6, 8, 3, padding=1, stride=2)
        self.up = Up()
        self.end = nn.Conv2d(14, 2, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        start = functional.silu(self.start(image))
        low = functional.silu(self.down(start))
        return self.end(torch.cat([start, self.up(low)], 1))

    @staticmethod
    def batch() -> Batch:
        return (torch.randn(4, 2, 8, 8),)


class Difference(nn.Module):
    """A linear regression whose loss is its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 1)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return (self.linear(inputs) - targets).pow(3).mean()

    @staticmethod
    def batch() -> Batch:
        return torch.randn(8, 3), torch.randn(8, 1)


KINDS: dict[str, Callable[[], nn.Module]] = {
    "perceptron": Perceptron,
    "convolutions": Convolutions,
    "language": Language,
    "recurrent": Recurrent,
    "unet": UNet,
    "difference": Difference,
}


def new_model(kind: str) -> Any:
    torch.manual_seed(3)
    model: Any = KINDS[kind]()
    return model.train()


def loss_of(output: Any) -> Tensor:
    """Any loss will do: of a model that returns one, that one."""
    if isinstance(output, dict):
        return output["loss"]
    if isinstance(output, tuple):
        return next((each for each in output if each.dim() == 0), output[0].pow(2).mean())
    return output if output.dim() == 0 else output.float().pow(2).mean()


def capture(part: Compiled, step: int, arguments: Batch) -> Any:
    """A call as a job makes and keeps it."""
    call = part.capture_call(step, arguments, {})
    output = part.compiled(*arguments)
    await_cotangents(call, output)
    return output


def captured(
    model: Any,
    compiler: Any,
    *,
    precision: str = "fp32",
    steps: int = 3,
    calls: int = 1,
    batch: Callable[[], Batch] | None = None,
    function: Callable[..., Any] | None = None,
    backward: Callable[[Any], None] = lambda output: loss_of(output).backward(),
    one_call: Callable[[Compiled, int, Batch], Any] = capture,
    seed: int = 1,
) -> Compiled:
    """What a job has of a compiled function after its first steps, with each step's update."""
    eager = model.forward if function is None else function
    compiled = Compiled(type(model).__name__, model, eager, compiler.compile(eager, model))
    torch.manual_seed(seed)
    for step in range(steps):
        for _ in range(calls):
            arguments = (batch or model.batch)()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
                output = one_call(compiled, step, arguments)
            backward(output)
        with torch.no_grad():
            for each in model.parameters():
                if each.grad is not None:
                    each.sub_(0.01 * each.grad)
                    each.grad = None
    return compiled


def wrong_in_the_job(graph: Any, inputs: list[Any]) -> Any:
    """A backend that is wrong in the process that trains, and right in any other."""
    if "pytest" not in sys.modules:
        return graph

    def wrong(*arguments: Any) -> Any:
        return [each * 1.01 for each in graph(*arguments)]

    return wrong


def backend(name: str) -> Any:
    """torch.compile with a backend, without any earlier graphs."""
    torch.compiler.reset()
    return load_compiler("torch-compile", {"backend": name})
