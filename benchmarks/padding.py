"""The three ways to pad documents, eager and compiled: what a document's training takes.

    .venv/bin/python -m pip install -e '.[bench]'
    .venv/bin/python benchmarks/padding.py [--rounds N] [--documents N] [--clock cpu]

Reuters R8 as the built-in program prepares it, cut at `--sequence-length` tokens. A cell is a way
to pad and a compiler; `longest` is compiled with dynamic shapes, since each of its steps has
another. In each round every cell runs once, in a process of its own on one core (or on the GPU if
there is one), in an order that turns from round to round. A process trains two epochs and counts
the second, so that each way has its whole mix of lengths, and nothing compiles; how much longer the
first took tells what compiling took. Compiled code is kept from round to round, so that only the
first round compiles in earnest. `--clock cpu` counts the process's CPU time, for busy machines.
`--rounds 0` trains nothing, and only counts what would be computed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers

from compilegate.datasets import ReutersR8, cache_folder
from compilegate.job import keep_freed_memory
from compilegate.job.compilers import load_compiler
from training.data.batches import BatchSource
from training.data.padding import BatchPlan
from training.data.prepared import PreparedSplit, read_prepared
from training.data.tables import Columns
from training.hyperparameters import Hyperparameters
from training.model import build_model
from training.prepare import prepare
from training.schedule import run_length

PROJECT = Path(__file__).parents[1]
PADDINGS = ("max", "buckets", "longest")
CELLS = [(padding, compiler) for compiler in ("eager", "inductor") for padding in PADDINGS]
SEED = 1

Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclasses.dataclass(frozen=True)
class Figures:
    """What one process found."""

    milliseconds: float
    """A document in the second epoch takes so many, in the mean."""
    first_epoch: float
    """Seconds of the first epoch."""
    second_epoch: float
    graphs: int
    share: float
    """How much of the computed positions is padding."""
    lengths: tuple[int, ...]


def main() -> None:
    transformers.utils.logging.disable_progress_bar()
    options = parser().parse_args()
    if options.cell is not None:
        print(json.dumps(dataclasses.asdict(one_process(options))))
        return
    with tempfile.TemporaryDirectory(prefix="padding-") as name:
        folder = Path(name)
        fetched = ReutersR8().fetch(cache_folder(), print)
        prepare(
            data_dir=next(iter(fetched.values())).parent,
            output_dir=folder / "prepared",
            columns=Columns("text", "label"),
            sequence_length=options.sequence_length,
            vocabulary=4096,
            max_train=options.documents,
        )
        print_counts(options, folder / "prepared")
        rounds = [one_round(options, number, folder) for number in range(options.rounds)]
    if rounds:
        print_table(options, rounds)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--documents", type=int, default=1024, help="of an epoch")
    parser.add_argument("--sequence-length", type=int, default=256)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--prepared", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    return parser


def one_round(
    options: argparse.Namespace, number: int, folder: Path
) -> dict[tuple[str, str], Figures]:
    """Each cell's figures; another cell begins in each round."""
    first = number % len(CELLS)
    found = {}
    for cell in [*CELLS[first:], *CELLS[:first]]:
        found[cell] = figures = in_a_process(options, cell, folder)
        print(f"{' '.join(cell)}: {figures}", file=sys.stderr)
    return found


def in_a_process(options: argparse.Namespace, cell: tuple[str, str], folder: Path) -> Figures:
    core = max(os.sched_getaffinity(0))
    told = [
        part
        for name in ("clock", "batch_size", "layers", "hidden_size")
        for part in (f"--{name.replace('_', '-')}", str(getattr(options, name)))
    ]
    ended = subprocess.run(
        [sys.executable, __file__, *told, "--prepared", folder / "prepared", "--cell", *cell],
        env={
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "-".join(cell)),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        },
        stdout=subprocess.PIPE,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    found = json.loads(ended.stdout.splitlines()[-1])
    return Figures(**{**found, "lengths": tuple(found["lengths"])})


def one_process(options: argparse.Namespace) -> Figures:
    """Train two epochs: forward, backward and AdamW, as a training step has them."""
    padding, name = options.cell
    clock = CLOCKS[options.clock]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu":
        keep_freed_memory()  # as a training job does
    data = read_prepared(options.prepared)
    told = Hyperparameters(
        batch_size=options.batch_size,
        padding=padding,
        layers=options.layers,
        hidden_size=options.hidden_size,
        intermediate_size=4 * options.hidden_size,
        attention_heads=max(options.hidden_size // 64, 1),
        epochs=2,
    )
    transformers.set_seed(SEED)
    model = build_model(told, data.manifest).to(device).train()
    compiler = load_compiler(
        name, {"dynamic_shapes": True} if (padding, name) == ("longest", "inductor") else {}
    )
    forward = compiler.compile(model, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=told.learning_rate)
    plan = plan_of(data.train, told)
    source = BatchSource(data.train, device)
    seconds = []
    for epoch in range(2):
        began = clock()
        for batch in source.training(plan, epoch):
            forward(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(clock() - began)
    record = plan.record()
    return Figures(
        milliseconds=1e3 * seconds[1] / plan.epoch(1).rows.size,
        first_epoch=seconds[0],
        second_epoch=seconds[1],
        graphs=compiler.graphs(),
        share=record.share,
        lengths=record.lengths,
    )


def plan_of(split: PreparedSplit, told: Hyperparameters) -> BatchPlan:
    return BatchPlan.of(split, told, run_length(told, len(split.labels)), SEED)


def print_counts(options: argparse.Namespace, prepared: Path) -> None:
    """How much of what an epoch computes is padding, each way."""
    split = read_prepared(prepared).train
    told = Hyperparameters(batch_size=options.batch_size)
    record = plan_of(split, told).record()
    lengths = {
        "max": f"{options.sequence_length}",
        "buckets": ", ".join(map(str, record.bucket_lengths)),
        "longest": "any",
    }
    print("| sequence length | padding | lengths | positions | of them padding |")
    print("|---|---|---|---|---|")
    for each in PADDINGS:
        positions = getattr(record.positions, each)
        print(
            f"| {options.sequence_length} | {each} | {lengths[each]} | {positions:,} | "
            f"{1 - record.tokens / positions:.0%} |"
        )


def print_table(options: argparse.Namespace, rounds: list[dict[tuple[str, str], Figures]]) -> None:
    what = f"{options.layers} layers x {options.hidden_size}"
    print(
        f"Reuters R8, {options.documents} documents of at most {options.sequence_length} tokens; "
        f"BERT, {what}, batch {options.batch_size}; {len(rounds)} rounds; {options.clock} time; "
        f"torch {torch.__version__}, {platform.processor() or platform.machine()}, load "
        f"{os.getloadavg()[0]:.1f} at the end"
    )
    print(
        "| padding | compiler | lengths | padding computed | ms a document | speed (by round) | "
        "graphs | first epoch less the second, s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for cell in CELLS:
        padding, compiler = cell
        each = [found[cell] for found in rounds]
        ratios = [found["max", "eager"].milliseconds / found[cell].milliseconds for found in rounds]
        one = each[0]
        print(
            f"| {padding} | {compiler}{' (dynamic)' if one.graphs and not one.lengths else ''} | "
            f"{', '.join(map(str, one.lengths)) or 'any'} | {one.share:.0%} | "
            f"{statistics.median(found.milliseconds for found in each):.2f} | "
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | "
            f"{one.graphs} | {one.first_epoch - one.second_epoch:.1f} |"
        )


if __name__ == "__main__":
    main()
