"""What `compilegate.job` costs a training script: steps with it and without, in turn.

    .venv/bin/python benchmarks/script_overhead.py [--loop plain|trainer|ddp]
        [--compiler eager|inductor] [--steps N] [--milliseconds M] [--clock wall|cpu]
        [--device cpu|cuda]

A step is forward, backward and SGD of a stack of layers, on one thread of a CPU of such a width
that it takes some `--milliseconds`, and on a GPU of width 512: in a plain loop, in Hugging Face's
Trainer, or in a plain loop under DistributedDataParallel in two processes, of which the first one's
steps are printed. In one process, three loops take one step each in turn, each in a thread of its
own that waits in its loader: one without Compilegate, one with it, and a second one without, which
shows what the noise is; each goes first in a third of the rounds. All train copies of one model on
the same batches, and read the loss of each step, as most scripts do. For inductor the others'
models are compiled by torch. No probe runs.

A round's figure is the difference between a loop's step and the mean of the two plain ones, or of
the other plain one. Printed is the median of all rounds, with its 95% interval by order statistics.
`--clock cpu` counts the process's CPU time, for busy machines.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from scipy import stats
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

from compilegate import job
from compilegate.job import JobConfig

DEPTH, BATCH_SIZE, BATCHES, WARM_UP = 4, 64, 50, 50
GPU_WIDTH = 512
LOOPS = ("without", "with", "again")
PROCESSES = 2
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
Batch = Mapping[str, torch.Tensor]


class Model(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        layers = [(torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(DEPTH)]
        self.layers = torch.nn.Sequential(*itertools.chain(*layers))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": torch.nn.functional.mse_loss(self.layers(inputs), labels)}


class Turns:
    """Loops that take steps in turn: a loop has its turn from one batch to the next one."""

    def __init__(self, names: tuple[str, ...], rounds: int, clock: Callable[[], float]) -> None:
        self.seconds: dict[str, list[float]] = {name: [] for name in names}
        self._names, self._rounds, self._clock = names, rounds, clock
        self._free = {name: threading.Semaphore(0) for name in names}
        self._order = self._in_order()

    def _in_order(self) -> Iterator[str]:
        """Each loop is asked for once more than it has steps, and then ends."""
        for number in range(self._rounds + 1):
            first = number % len(self._names)
            yield from (*self._names[first:], *self._names[:first])

    def batches(self, name: str, batches: list[Batch]) -> Iterator[Batch]:
        taken = self.seconds[name]
        for batch in itertools.islice(itertools.cycle(batches), self._rounds):
            self._free[name].acquire()
            began = self._clock()
            yield batch
            taken.append(self._clock() - began)
            self._pass_on()
        self._free[name].acquire()

    def take(self, loops: Mapping[str, Callable[[], None]]) -> None:
        """Run them all to their ends, one after another after the last step."""
        threads = [threading.Thread(target=self._run, args=(each,)) for each in loops.values()]
        for each in threads:
            each.start()
        self._pass_on()
        for each in threads:
            each.join()

    def _run(self, loop: Callable[[], None]) -> None:
        torch.set_num_threads(1)  # OpenMP counts them for each thread that calls it
        try:
            loop()
        except BaseException:  # noqa: BLE001 - whatever it is
            sys.excepthook(*sys.exc_info())
            os._exit(1)  # the others wait for a turn that never comes
        self._pass_on()

    def _pass_on(self) -> None:
        name = next(self._order, None)
        if name is not None:
            self._free[name].release()


class Endless(torch.utils.data.IterableDataset[Batch]):
    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return self._batches


def loop_of(
    options: argparse.Namespace, model: Model, batches: Iterator[Batch], own: job.Job | None
) -> Callable[[], None]:
    """A training that ends with the batches; by `own`, if that is given."""
    if own is None and options.compiler == "inductor":
        model.compile()
    if options.loop == "trainer":
        return trainer(options, model, batches, own)
    if own is not None:
        model = own.compile(model)
        wrapped = own.distributed(model) if options.loop == "ddp" else model
        return lambda: train(wrapped, own.steps(batches))
    called = DistributedDataParallel(model) if options.loop == "ddp" else model
    return lambda: train(called, batches)


def train(model: Any, batches: Any) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for batch in batches:
        loss = model(**batch)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()


def trainer(
    options: argparse.Namespace, model: Model, batches: Iterator[Batch], own: job.Job | None
) -> Callable[[], None]:
    arguments = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(), max_steps=options.steps + WARM_UP, seed=0, report_to="none",
        per_device_train_batch_size=1, optim="sgd", logging_strategy="no", save_strategy="no",
        disable_tqdm=True, use_cpu=options.device == "cpu", learning_rate=1e-3,
        lr_scheduler_type="constant", dataloader_pin_memory=False,
    )  # fmt: skip
    loop = transformers.Trainer(
        model=model, args=arguments, train_dataset=Endless(batches),
        data_collator=lambda rows: rows[0],
        callbacks=[] if own is None else [job.TrainerCallback()],
    )  # fmt: skip
    return lambda: (loop.train(), None)[1]


def measure(process: int, options: argparse.Namespace, width: int, place: str) -> None:
    """In one process, or in one of several."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.loop == "ddp":
        os.environ |= {"TORCHELASTIC_RUN_ID": "one", "WORLD_SIZE": str(PROCESSES)}
        os.environ |= {"RANK": str(process), "LOCAL_RANK": str(process)}
        distributed.init_process_group(
            "gloo", init_method=f"file://{place}/met", rank=process, world_size=PROCESSES
        )
    model = Model(width).to(options.device)
    batches = [
        {
            name: torch.randn(BATCH_SIZE, width, device=options.device)
            for name in ("inputs", "labels")
        }
        for _ in range(BATCHES)
    ]
    own = job.start(
        config=JobConfig(
            "job", "arm", Path(place), Path(place), compiler=options.compiler, parity_steps=0
        )
    )
    turns = Turns(LOOPS, options.steps + WARM_UP, CLOCKS[options.clock])
    turns.take(
        {
            name: loop_of(
                options, copy.deepcopy(model), turns.batches(name, batches),
                own if name == "with" else None,
            )
            for name in turns.seconds
        }
    )  # fmt: skip
    if process == 0:
        print_table(options, {name: each[WARM_UP:] for name, each in turns.seconds.items()})
    sys.stdout.flush()
    os._exit(0)  # the job has no model to judge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--loop", choices=("plain", "trainer", "ddp"), default="plain")
    parser.add_argument("--compiler", choices=("eager", "inductor"), default="eager")
    parser.add_argument("--steps", type=int, default=1500, help="of each loop")
    parser.add_argument("--milliseconds", type=float, default=5.0, help="of a step, about")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="not with ddp")
    options = parser.parse_args()
    torch.set_num_threads(1)
    width = width_for(options.milliseconds / 1e3) if options.device == "cpu" else GPU_WIDTH
    with tempfile.TemporaryDirectory() as place:
        processes = PROCESSES if options.loop == "ddp" else 1
        multiprocessing.spawn(measure, (options, width, place), nprocs=processes)


def width_for(seconds: float) -> int:
    """The width with which a step takes about so long, by doubling and then by its square."""
    width = 64
    while True:
        batch = {name: torch.randn(BATCH_SIZE, width) for name in ("inputs", "labels")}
        turns = Turns(("alone",), 15, time.process_time)
        model = Model(width)
        turns.take({"alone": lambda: train(model, turns.batches("alone", [batch]))})  # noqa: B023
        taken = statistics.median(turns.seconds["alone"])
        if taken > seconds / 3:
            return max(8, int(width * (seconds / taken) ** 0.5) // 8 * 8)
        width *= 2


def print_table(options: argparse.Namespace, seconds: Mapping[str, list[float]]) -> None:
    plain, ours, again = (np.array(seconds[name]) for name in LOOPS)
    step = float(np.median(np.concatenate([plain, again])))
    way = f"{options.loop} loop, {options.compiler}, {options.clock} time"
    print(f"{len(plain)} steps each, {way}, torch {torch.__version__}")
    print("| loop | step, ms | more than without, microseconds | 95% interval | of the step |")
    print("|---|---|---|---|---|")
    rows = {"with compilegate.job": (ours, (plain + again) / 2), "without, again": (again, plain)}
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
