"""Time what `compilegate.job` adds to a step of a training script, while no probe runs.

    python -m benchmarks.script_overhead [--loops plain trainer ddp] [--compilers eager inductor]
        [--steps N] [--width N] [--clock wall|cpu] [--device cpu|cuda] [--write]

A step is forward, backward and SGD of a stack of layers on one thread, some 5 ms: in a plain loop,
in Hugging Face's Trainer, or under DistributedDataParallel in two processes, of which the first
one's steps count. The peer is the same loop without Compilegate. Three loops take one step each in
turn, each in a thread that waits in its loader: one without, one with it, and a second one without,
which shows the noise; each goes first in a third of the rounds. All train copies of one model on
the same batches and read the loss of each step. For inductor the peers' models are compiled by
torch.

A round's figure is the difference between a loop's step and the mean of the two plain ones, or of
the other plain one. Printed is the median of all rounds, with its 95% interval by order statistics.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from scipy import stats
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

from benchmarks import results
from benchmarks.timing import CLOCKS
from compilegate import job
from compilegate.job import JobConfig

DEPTH, BATCH_SIZE, BATCHES, WARM_UP = 4, 64, 50, 50
LOOPS = ("without", "with", "again")
PROCESSES = 2
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
        """The names by turn. Each has one turn more than it has steps, and then ends."""
        for number in range(self._rounds + 1):
            first = number % len(self._names)
            yield from (*self._names[first:], *self._names[:first])

    def batches(self, name: str, batches: list[Batch]) -> Iterator[Batch]:
        """The batches of one loop, each in its turn."""
        times = self.seconds[name]
        for batch in itertools.islice(itertools.cycle(batches), self._rounds):
            self._free[name].acquire()
            began = self._clock()
            yield batch
            times.append(self._clock() - began)
            self._pass_on()
        self._free[name].acquire()

    def take(self, loops: Mapping[str, Callable[[], object]]) -> None:
        """Run all loops to their ends, one after another after the last step."""
        threads = [threading.Thread(target=self._run, args=(each,)) for each in loops.values()]
        for each in threads:
            each.start()
        self._pass_on()
        for each in threads:
            each.join()

    def _run(self, loop: Callable[[], object]) -> None:
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
) -> Callable[[], object]:
    """A training that ends with the batches; with the job `own`, if that is given."""
    if own is None and options.compiler == "inductor":
        model.compile()
    if options.loop == "trainer":
        return trainer(options, model, batches, own).train
    called: Any = model if own is None else own.compile(model)
    if options.loop == "ddp":
        called = DistributedDataParallel(model) if own is None else own.distributed(called)
    return lambda: train(called, batches if own is None else own.steps(batches))


def train(model: Any, batches: Any) -> None:
    """The plain loop."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for batch in batches:
        loss = model(**batch)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()


def trainer(
    options: argparse.Namespace, model: Model, batches: Iterator[Batch], own: job.Job | None
) -> Any:
    """Hugging Face's Trainer, with this project's callback if a job is given."""
    arguments = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(), max_steps=options.steps + WARM_UP, seed=0, report_to="none",
        per_device_train_batch_size=1, optim="sgd", logging_strategy="no", save_strategy="no",
        disable_tqdm=True, use_cpu=options.device == "cpu", learning_rate=1e-3,
        lr_scheduler_type="constant", dataloader_pin_memory=False,
    )  # fmt: skip
    return transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=Endless(batches),
        data_collator=lambda rows: rows[0],
        callbacks=[] if own is None else [job.TrainerCallback()],
    )


def measure(process: int, options: argparse.Namespace, folder: str) -> None:
    """Measure in this process, one of several under DDP."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.loop == "ddp":
        os.environ |= {"TORCHELASTIC_RUN_ID": "one", "WORLD_SIZE": str(PROCESSES)}
        os.environ |= {"RANK": str(process), "LOCAL_RANK": str(process)}
        meeting = f"file://{folder}/met"
        distributed.init_process_group(
            "gloo", init_method=meeting, rank=process, world_size=PROCESSES
        )
    model = Model(options.width).to(options.device)
    shape = BATCH_SIZE, options.width
    batches = [
        {name: torch.randn(shape, device=options.device) for name in ("inputs", "labels")}
        for _ in range(BATCHES)
    ]
    place = Path(folder)
    own = job.start(
        config=JobConfig("job", "arm", place, place, compiler=options.compiler, parity_steps=0)
    )
    turns = Turns(LOOPS, options.steps + WARM_UP, CLOCKS[options.clock])
    loops = {}
    for name in LOOPS:
        batches_in_turn = turns.batches(name, batches)
        of_job = own if name == "with" else None
        loops[name] = loop_of(options, copy.deepcopy(model), batches_in_turn, of_job)
    turns.take(loops)
    if process == 0:
        counted = {name: each[WARM_UP:] for name, each in turns.seconds.items()}
        Path(folder, "seconds.json").write_text(json.dumps(counted))
    os._exit(0)  # the job has no model to judge


def row(way: str, seconds: Mapping[str, list[float]]) -> list[str]:
    """The median step with the job, what it adds, and what a second loop without it adds."""
    plain, ours, again = (np.array(seconds[name]) for name in LOOPS)
    found = [way, f"{1e3 * np.median(ours):.3f}"]
    for added in (ours - (plain + again) / 2, again - plain):
        ordered = 1e6 * np.sort(added)
        below = max(int(stats.binom.ppf(0.025, len(ordered), 0.5)) - 1, 0)
        bounds = f"{ordered[below]:.0f} to {ordered[len(ordered) - 1 - below]:.0f}"
        found += [f"{np.median(ordered):.0f}", bounds]
    return found


def main() -> None:
    """Measure and print."""
    parser = results.parser(__doc__)
    parser.add_argument("--loops", nargs="+", default=["plain", "trainer", "ddp"])
    parser.add_argument("--compilers", nargs="+", default=["eager", "inductor"])
    parser.add_argument("--steps", type=int, default=1500, help="of each loop")
    parser.add_argument("--width", type=int, default=512, help="of a layer")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="not with ddp")
    options = parser.parse_args()
    rows = []
    for compiler, loop in itertools.product(options.compilers, options.loops):
        way = argparse.Namespace(**{**vars(options), "loop": loop, "compiler": compiler})
        with tempfile.TemporaryDirectory() as folder:
            processes = PROCESSES if loop == "ddp" else 1
            multiprocessing.spawn(measure, (way, folder), nprocs=processes)
            seconds = json.loads(Path(folder, "seconds.json").read_text())
        rows.append(row(f"{loop}, {compiler}", seconds))
    columns = ["loop, compiler", "step with the job, ms", "added, µs", "95% interval"]
    columns += ["added by a second loop without it, µs", "95% interval"]
    note = f"{options.steps} steps of each loop, {options.clock} time."
    name = "script-overhead" + ("-gpu" if options.device == "cuda" else "")
    results.publish(name, columns, rows, to_file=options.write, notes=[note])


if __name__ == "__main__":
    main()
