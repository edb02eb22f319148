"""Time a training step here and in Hugging Face's Trainer: same model, data and precision.

    python -m benchmarks.train_step [--rounds N] [--steps N] [--clock cpu] [--write]

A cell is a compiler and a precision. In each round every cell runs with this project's loop and
with Trainer in turn, each in a process of its own on one core (or on the GPU if there is one). A
step lasts from one batch to the next, so that it includes all that the loop does. A process's
figure is its median step; the ratio is taken round by round. Both use AdamW, clipped gradients and
a linear schedule with warm-up. `--clock cpu` counts CPU time, for busy machines.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from benchmarks import results
from benchmarks.timing import CLOCKS, ONE_THREAD, in_turn, run
from compilegate.job import Job, JobConfig, keep_freed_memory
from training.data.batches import Batch, BatchSource
from training.data.prepared import Manifest, PreparedSplit
from training.hyperparameters import Hyperparameters
from training.loop import train
from training.model import build_model
from training.schedule import run_length

DOCUMENTS, SEQUENCE_LENGTH, VOCABULARY, LABELS = 2048, 64, 4096, 8
BATCH, LAYERS, HIDDEN = 16, 2, 128
WARM_UP = 10
"""The first steps of a process, which do not count: compilation, allocations."""
CELLS = list(product(("eager", "inductor"), ("fp32", "bf16")))
Clock = Callable[[], float]


def main() -> None:
    """Measure and print, or be one of the processes that are measured."""
    transformers.utils.logging.disable_progress_bar()
    options = parser().parse_args()
    if options.cell is not None:
        loop, compiler, precision = options.cell
        times = LOOPS[loop](options, compiler, precision, CLOCKS[options.clock])
        print(json.dumps(np.diff(times).tolist()))
        return
    cells: dict[tuple[str, str], dict[str, list[float]]] = {cell: {} for cell in CELLS}
    with tempfile.TemporaryDirectory(prefix="train-step-") as cache:
        for cell in CELLS:
            loops = {name: partial(median_step, (name, *cell), cache) for name in LOOPS}
            cells[cell] = in_turn(loops, options.rounds)
    rows = []
    for cell, found in cells.items():
        ours, theirs = found.values()
        ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
        medians = [f"{1e3 * statistics.median(each):.2f}" for each in (ours, theirs)]
        ratio = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        rows.append([*cell, *medians, ratio])
    columns = ["compiler", "precision", "this project, ms", "Trainer, ms"]
    columns.append("Trainer / this project (by round)")
    note = f"BERT of {LAYERS} layers x {HIDDEN}, {SEQUENCE_LENGTH} tokens, batch {BATCH}, without "
    note += f"dropout; {options.clock} time; medians of {options.rounds} rounds."
    results.publish("train-step", columns, rows, to_file=options.write, notes=[note])


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = results.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60, help="steps of each process that count")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    return parser


def median_step(cell: tuple[str, str, str], cache: str) -> float:
    """Seconds of the median step, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.train_step", *sys.argv[1:], "--cell", *cell]
    # Compiled once, in the first round: another benchmark measures compile time.
    variables = {**ONE_THREAD, "TORCHINDUCTOR_CACHE_DIR": f"{cache}/{cell[0].replace(' ', '-')}"}
    steps = json.loads(run(command, variables, one_core=True).output.splitlines()[-1])
    return statistics.median(steps[WARM_UP:])


def model_and_recipe(options: argparse.Namespace, precision: str) -> tuple[Any, Hyperparameters]:
    """The model with its initial weights, and how it is trained."""
    transformers.set_seed(1)
    recipe = Hyperparameters(
        batch_size=BATCH,
        precision=precision,
        layers=LAYERS,
        hidden_size=HIDDEN,
        intermediate_size=4 * HIDDEN,
        attention_heads=HIDDEN // 64,
        dropout=0.0,
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
    """Random documents of full length."""
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
    """The time of each batch in this project's loop."""
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
    unused = Path("unused")
    settings = {"compiler": compiler, "precision": precision, "parity_steps": 0}
    job = Job(JobConfig("job", "arm", unused, unused, **settings))
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
    """The time of each batch in Trainer."""
    times: list[float] = []

    class Timed(transformers.TrainerCallback):
        def on_step_begin(self, *_arguments: Any, **_named: Any) -> None:
            times.append(clock())

    model, recipe = model_and_recipe(options, precision)
    split = documents()
    columns = {
        name: torch.from_numpy(getattr(split, name).astype(np.int64))
        for name in ("input_ids", "attention_mask", "labels")
    }
    rows = [{name: column[row] for name, column in columns.items()} for row in range(DOCUMENTS)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=BATCH,
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


LOOPS = {"this project": this_project, "Trainer": trainer}

if __name__ == "__main__":
    main()
