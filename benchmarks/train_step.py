"""A training step here and in Hugging Face's Trainer, with the same model, data and precision.

    .venv/bin/python -m pip install -e '.[run]'
    .venv/bin/python benchmarks/train_step.py [--rounds N] [--steps N] [--clock cpu] [--dropout P]

A cell is a compiler and a precision. In each round every cell runs twice, once with this project's
loop and once with Trainer, each in a separate process on one core (or on the GPU if there is one);
they take turns at going first. A step is timed from one batch to the next, so that it includes all
that the loop does. A process's figure is its median step, and the ratio is taken round by round.
Both use AdamW, clipped gradients and a linear schedule with warm-up. `--clock cpu` counts the
process's CPU time, for busy machines.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from compilegate.job import Job, JobConfig, keep_freed_memory
from training.data.batches import Batch, BatchSource
from training.data.prepared import Manifest, PreparedSplit
from training.hyperparameters import Hyperparameters
from training.loop import train
from training.model import build_model
from training.schedule import run_length

PROJECT = Path(__file__).parents[1]
DOCUMENTS, SEQUENCE_LENGTH, VOCABULARY, LABELS = 2048, 64, 4096, 8
WARM_UP = 10
"""The first steps of a process, which do not count: compilation, allocations."""
LOOPS = ("this project", "Trainer")
CELLS = [
    (compiler, precision) for compiler in ("eager", "inductor") for precision in ("fp32", "bf16")
]

Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}


def main() -> None:
    transformers.utils.logging.disable_progress_bar()
    options = parser().parse_args()
    if options.cell is not None:
        print(json.dumps(one_process(options)))
        return
    with tempfile.TemporaryDirectory(prefix="train-step-") as cache:
        rounds = [one_round(options, number, Path(cache)) for number in range(options.rounds)]
    print_table(options, rounds)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60, help="steps of each process that count")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    return parser


def one_round(options: argparse.Namespace, number: int, cache: Path) -> dict[Any, float]:
    """Median seconds of a step, by (compiler, precision, loop)."""
    order = LOOPS if number % 2 == 0 else tuple(reversed(LOOPS))
    found = {}
    for compiler, precision in CELLS:
        for loop in order:
            found[compiler, precision, loop] = seconds = median_step(
                options, (compiler, precision, loop), cache
            )
            print(f"{compiler}, {precision}, {loop}: {1e3 * seconds:.2f} ms", file=sys.stderr)
    return found


def median_step(options: argparse.Namespace, cell: tuple[str, str, str], cache: Path) -> float:
    core = min(os.sched_getaffinity(0))
    told = [
        part
        for name in ("steps", "clock", "batch_size", "layers", "hidden_size", "dropout")
        for part in (f"--{name.replace('_', '-')}", str(getattr(options, name)))
    ]
    ended = subprocess.run(
        [sys.executable, __file__, *told, "--cell", *cell],
        env={
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "OMP_NUM_THREADS": "1",
            # Compiled once, in the first round: another benchmark measures compile time.
            "TORCHINDUCTOR_CACHE_DIR": str(cache / cell[2].replace(" ", "-")),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        },
        stdout=subprocess.PIPE,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    steps = json.loads(ended.stdout.splitlines()[-1])
    return statistics.median(steps[WARM_UP:])


def one_process(options: argparse.Namespace) -> list[float]:
    """Seconds of each step, from one batch to the next."""
    compiler, precision, loop = options.cell
    run = this_project if loop == LOOPS[0] else trainer
    times = run(options, compiler, precision, CLOCKS[options.clock])
    return np.diff(times).tolist()


def model_and_recipe(options: argparse.Namespace, precision: str) -> tuple[Any, Hyperparameters]:

    transformers.set_seed(1)
    recipe = Hyperparameters(
        batch_size=options.batch_size,
        precision=precision,
        layers=options.layers,
        hidden_size=options.hidden_size,
        intermediate_size=4 * options.hidden_size,
        attention_heads=max(options.hidden_size // 64, 1),
        dropout=options.dropout,
        epochs=1000,
        max_steps=WARM_UP + options.steps + 2,
    )
    manifest = Manifest(
        labels=tuple(map(str, range(LABELS))),
        counts={"train": DOCUMENTS},
        sequence_length=SEQUENCE_LENGTH,
        vocabulary_size=VOCABULARY,
        pad_token_id=0,
        digests={},
    )
    return build_model(recipe, manifest), recipe


def documents() -> PreparedSplit:

    draw = np.random.default_rng(0)
    shape = (DOCUMENTS, SEQUENCE_LENGTH)
    return PreparedSplit(
        input_ids=draw.integers(1, VOCABULARY, shape, dtype=np.int32),
        attention_mask=np.ones(shape, dtype=np.int8),
        labels=draw.integers(0, LABELS, DOCUMENTS, dtype=np.int64),
        ids=np.arange(DOCUMENTS).astype(str),
    )


def this_project(
    options: argparse.Namespace, compiler: str, precision: str, clock: Clock
) -> list[float]:

    times: list[float] = []

    class Timed(BatchSource):
        def training(self, *arguments: Any, **named: Any) -> Iterator[Batch]:
            for batch in super().training(*arguments, **named):
                times.append(clock())
                yield batch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu":
        keep_freed_memory()  # as a training job does
    model, recipe = model_and_recipe(options, precision)
    nowhere = Path("unused")
    told = JobConfig(
        "job", "arm", nowhere, nowhere, compiler=compiler, precision=precision, parity_steps=0
    )
    job = Job(told)
    train(
        job,
        job.compile(model.to(device)),
        source=Timed(documents(), device),
        hyperparameters=recipe,
        length=run_length(recipe, DOCUMENTS),
    )
    return times


def trainer(
    options: argparse.Namespace, compiler: str, precision: str, clock: Clock
) -> list[float]:

    times: list[float] = []

    class Timed(transformers.TrainerCallback):
        def on_step_begin(self, *_arguments: Any, **_named: Any) -> None:
            times.append(clock())

    model, recipe = model_and_recipe(options, precision)
    split = documents()
    columns = {
        "input_ids": torch.from_numpy(split.input_ids.astype(np.int64)),
        "attention_mask": torch.from_numpy(split.attention_mask.astype(np.int64)),
        "labels": torch.from_numpy(split.labels),
    }
    rows = [{name: column[row] for name, column in columns.items()} for row in range(DOCUMENTS)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=options.batch_size,
            max_steps=recipe.max_steps,
            learning_rate=recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            max_grad_norm=recipe.gradient_clip,
            warmup_steps=round(recipe.max_steps * recipe.warmup_fraction),
            use_cpu=not torch.cuda.is_available(),
            bf16=precision == "bf16",
            torch_compile=compiler == "inductor",
            dataloader_drop_last=True,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=rows,
            data_collator=transformers.default_data_collator,
            callbacks=[Timed()],
        ).train()
    return times


def print_table(options: argparse.Namespace, rounds: list[dict[Any, float]]) -> None:

    what = f"{options.layers} layers x {options.hidden_size}, {SEQUENCE_LENGTH} tokens"
    print(
        f"BERT, {what}, batch {options.batch_size}, dropout {options.dropout:g}; "
        f"{len(rounds)} rounds of {options.steps} steps; {options.clock} time; "
        f"torch {torch.__version__}, transformers {transformers.__version__}, "
        f"{platform.processor() or platform.machine()}"
    )
    print("| compiler | precision | this project, ms | Trainer, ms | Trainer / this project |")
    print("|---|---|---|---|---|")
    for compiler, precision in CELLS:
        ours, theirs = ([each[compiler, precision, loop] for each in rounds] for loop in LOOPS)
        ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
        medians = [1e3 * statistics.median(each) for each in (ours, theirs)]
        print(
            f"| {compiler} | {precision} | {medians[0]:.2f} | {medians[1]:.2f} | "
            f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) |"
        )


if __name__ == "__main__":
    main()
