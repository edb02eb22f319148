"""What `compilegate.job` costs a training script: steps with it and without, in turn.

    .venv/bin/python benchmarks/script_overhead.py [--compiler eager|inductor] [--steps N]
        [--milliseconds M] [--clock wall|cpu]

A step is forward, backward and SGD of a stack of layers on one thread of a CPU, of such a width
that it takes some `--milliseconds`. In one process, three loops take one step each in turn: a plain
one, one over `job.steps(batches)` with a model that went through `job.compile`, and a second plain
one, which shows what the noise is; each goes first in a third of the rounds. All train copies of
one model on the same batches, and read the loss of each step, as most scripts do. The plain loops
call the `backward` that torch came with; for inductor their models went through torch.compile. No
probe runs.

A round's figure is the difference between a loop's step and the mean of the two plain ones, or of
the other plain one. Printed is the median of all rounds, with its 95% interval by order statistics.
`--clock cpu` counts the process's CPU time, for busy machines.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy import stats

from compilegate.job import Job, Told

DEPTH, BATCH_SIZE, BATCHES, WARM_UP = 4, 64, 50, 50
CLOCKS: dict[str, Callable[[], float]] = {
    "wall": time.perf_counter,
    "cpu": time.process_time,
}
Batch = tuple[torch.Tensor, torch.Tensor]
Clock = Callable[[], float]


class Script:
    """A training loop and its model, a step at a time."""

    def __init__(
        self,
        model: torch.nn.Module,
        batches: Iterable[Batch],
        backward: Callable[[torch.Tensor], None],
    ) -> None:
        self._model = model
        self._batches = iter(batches)
        self._backward = backward
        self._optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(self, clock: Clock) -> float:
        """Seconds of a step: what is done between steps counts with the next one."""
        began = clock()
        inputs, targets = next(self._batches)
        loss = torch.nn.functional.mse_loss(self._model(inputs), targets)
        self._optimizer.zero_grad()
        self._backward(loss)
        self._optimizer.step()
        loss.item()
        return clock() - began


class Endless:
    """A loader whose batches come again and again."""

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return itertools.cycle(self._batches)


def main() -> None:
    options = parser().parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    clock = CLOCKS[options.clock]
    width = width_for(options.milliseconds / 1e3)
    model = model_of(width)
    compiled = options.compiler == "inductor"
    plain_model = torch.compile if compiled else (lambda module: module)
    batches = Endless(
        [(torch.randn(BATCH_SIZE, width), torch.randn(BATCH_SIZE, width)) for _ in range(BATCHES)]
    )
    as_torch_has_it = torch.Tensor.backward  # a job looks at what it is called on
    with tempfile.TemporaryDirectory() as folder:
        told = Told("job", "arm", Path(folder), Path(folder), compiler=options.compiler)
        job = Job(replace(told, parity_steps=0))
        scripts = {
            "plain": Script(plain_model(copy.deepcopy(model)), batches, as_torch_has_it),
            "job": Script(
                job.compile(copy.deepcopy(model)), job.steps(batches), lambda loss: loss.backward()
            ),
            "plain again": Script(plain_model(copy.deepcopy(model)), batches, as_torch_has_it),
        }
        names = list(scripts)
        rounds = []
        for number in range(-WARM_UP, options.steps):
            first = number % len(names)
            taken = {name: scripts[name].step(clock) for name in [*names[first:], *names[:first]]}
            if number >= 0:
                rounds.append(taken)
        print_table(options, {name: [each[name] for each in rounds] for name in names})


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--compiler", choices=("eager", "inductor"), default="eager")
    parser.add_argument("--steps", type=int, default=1500, help="of each loop")
    parser.add_argument("--milliseconds", type=float, default=5.0, help="of a step, about")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    return parser


def model_of(width: int) -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    for _ in range(DEPTH):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


def width_for(seconds: float) -> int:
    """The width with which a step takes about so long, by doubling and then by its square."""
    width = 64
    while True:
        batch = torch.randn(BATCH_SIZE, width), torch.randn(BATCH_SIZE, width)
        script = Script(model_of(width), Endless([batch]), torch.Tensor.backward)
        taken = statistics.median(script.step(time.process_time) for _ in range(15))
        if taken > seconds / 3:
            return max(8, int(width * (seconds / taken) ** 0.5) // 8 * 8)
        width *= 2


def print_table(options: argparse.Namespace, seconds: dict[str, list[float]]) -> None:
    plain, ours, again = (np.array(seconds[name]) for name in seconds)
    step = float(np.median(np.concatenate([plain, again])))
    way = f"{options.compiler}, {options.clock} time, torch {torch.__version__}"
    print(f"{len(plain)} steps each, {way}")
    print("| loop | step, ms | more than plain, microseconds | 95% interval | of the step |")
    print("|---|---|---|---|---|")
    rows = {"with compilegate.job": (ours, (plain + again) / 2), "plain again": (again, plain)}
    for name, (loop, beside) in rows.items():
        ordered = np.sort(loop - beside)
        below = max(int(stats.binom.ppf(0.025, len(ordered), 0.5)) - 1, 0)
        more = float(np.median(ordered))
        bounds = ordered[below], ordered[len(ordered) - 1 - below]
        print(
            f"| {name} | {1e3 * np.median(loop):.3f} | {1e6 * more:.0f} | "
            f"{1e6 * bounds[0]:.0f} to {1e6 * bounds[1]:.0f} | {more / step:+.2%} |"
        )


if __name__ == "__main__":
    main()
