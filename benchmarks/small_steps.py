"""What a compiler saves of small steps on a CPU: eager, inductor, and inductor with a C++ wrapper.

    .venv/bin/python benchmarks/small_steps.py [--steps N] [--batch-size N] [--layers N]

The model is that of workloads/news-topics.toml. All ways take turns step by step, in one process
on one core, and each step is timed by the process's CPU time, so that a busy machine does not
decide. A cell is the median; the table has forward and backward, and the whole step with AdamW's
update and the weights' average, which no compiler touches here.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from compilegate.job import keep_freed_memory
from training.data.prepared import Manifest
from training.hyperparameters import Hyperparameters
from training.model import build_model
from training.schedule import run_length
from training.update import WeightAverage, WeightUpdate

LENGTH, VOCABULARY, LABELS = 40, 4096, 8
WARM_UP = 10
WAYS: dict[str, dict[str, Any] | None] = {
    "eager": None,
    "inductor": {},
    "inductor, cpp_wrapper": {"cpp_wrapper": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    ways = {name: a_step(options, how) for name, how in WAYS.items()}
    for name, step in ways.items():
        print(f"compiling and warming up: {name}", file=sys.stderr)
        for _ in range(WARM_UP):
            step()
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(options.steps):
        for name, step in ways.items():
            seconds[name].append(step())
    print(f"batch {options.batch_size} x {LENGTH}, {options.layers} layers, {options.steps} steps")
    print(f"{'':24}{'graph, ms':>12}{'gain':>8}{'step, ms':>12}{'gain':>8}")
    eager = medians(seconds["eager"])
    for name, taken in seconds.items():
        graph, whole = medians(taken)
        print(
            f"{name:24}{1e3 * graph:12.2f}{eager[0] / graph:8.2f}"
            f"{1e3 * whole:12.2f}{eager[1] / whole:8.2f}"
        )


def medians(taken: list[tuple[float, float]]) -> tuple[float, float]:
    """The median seconds of the graph, and of the whole step."""
    graph, whole = zip(*taken, strict=True)
    return statistics.median(graph), statistics.median(whole)


def a_step(
    options: argparse.Namespace, how: dict[str, Any] | None
) -> Callable[[], tuple[float, float]]:
    """A function that takes one step of its own model, and returns what its graph and all of it
    took, in seconds of CPU time."""
    torch.manual_seed(1)
    recipe = Hyperparameters(
        batch_size=options.batch_size,
        learning_rate=5e-4,
        layers=options.layers,
        hidden_size=64,
        intermediate_size=128,
        dropout=0.0,
        gradient_clip=0.0,
        averaging=0.997,
    )
    manifest = Manifest(
        labels=tuple(map(str, range(LABELS))),
        counts={"train": 4096},
        sequence_length=LENGTH,
        vocabulary_size=VOCABULARY,
        pad_token_id=0,
        digests={},
    )
    model = build_model(recipe, manifest).train()
    forward = model if how is None else torch.compile(model, dynamic=False, options=how)
    average = WeightAverage(model, recipe.averaging)
    update = WeightUpdate(model, recipe, run_length(recipe, 4096), average=average)
    shape = (options.batch_size, LENGTH)
    batch = {
        "input_ids": torch.randint(1, VOCABULARY, shape),
        "attention_mask": torch.ones(shape, dtype=torch.long),
        "labels": torch.randint(0, LABELS, shape[:1]),
    }

    def step() -> tuple[float, float]:
        began = time.process_time()
        update.backward(forward(**batch).loss)
        graph = time.process_time() - began
        update.apply(1)
        return graph, time.process_time() - began

    return step


if __name__ == "__main__":
    main()
