"""Does a batch of this size fit? Takes a few real training steps on random documents.

    python -m training.fit --result fit.json --steps 3 --sequence_length 64 --vocabulary 4096 \
        -- --arm larger-batch --seed 1 --compiler inductor --batch_size 512

After ``--`` come the hyperparameters of a training job. The model, the compiler, the precision and
the loop are that job's; the documents are random tokens of full length, as only shapes take memory.
The result is a file, since a process that runs out of memory may be killed before it prints.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import resource
import sys
import time
from pathlib import Path
from typing import Sequence

import numpy as np
import torch
import transformers

from compilegate.job import ArmError, InputError, Job, check_precision, this_machine
from compilegate.job.errors import one_sentence
from training.arguments import FOLDER_VARIABLES, read_arguments
from training.data.batches import BatchSource
from training.data.prepared import Manifest, PreparedSplit
from training.hyperparameters import Hyperparameters
from training.loop import train
from training.model import build_model
from training.schedule import run_length

LABELS = 16  # classes of the random documents: their logits take almost no memory
_NO_FOLDERS = dict.fromkeys(FOLDER_VARIABLES, "unused")
_OUT_OF_MEMORY = (
    "out of memory",
    "allocate memory",
    "not enough memory",
    "bad_alloc",
    "Resource temporarily unavailable",  # a thread without room for its stack
)
_ONEDNN = "could not create a primitive"
"""oneDNN's message for any failure. With "descriptor" after it, the operation is unknown to it."""


def main(arguments: Sequence[str]) -> int:
    """Try it and write the result; the exit status is 0 whatever the result."""
    transformers.utils.logging.disable_progress_bar()
    options = _parser().parse_args(arguments)
    began = time.perf_counter()
    outcome, reason, job = "fits", None, None
    try:
        request = read_arguments(options.hyperparameters, _NO_FOLDERS)
        with contextlib.suppress(OSError):  # if memory runs out, Linux kills this process first
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
        transformers.set_seed(request.config.seed)
        # The job without its probes: the calls that they store are no part of a step's memory.
        no_probes = {"parity_steps": 0, "baseline": None, "compile_cache": None, "recipe": {}}
        job = Job(dataclasses.replace(request.config, **no_probes))
        _limit_memory(options.memory_limit, job.accelerator)
        _take_steps(job, request.hyperparameters, options)
    except (InputError, ArmError, MemoryError, RuntimeError, OSError) as error:
        reason = one_sentence(error)
        ran_out = isinstance(error, MemoryError) or any(it in str(error) for it in _OUT_OF_MEMORY)
        ran_out = ran_out or (bool(options.memory_limit) and str(error) == _ONEDNN)
        outcome = "out of memory" if ran_out else "failed"
    gpu = this_machine().accelerators
    result = {
        "outcome": outcome,
        "reason": reason,
        "peak_memory_bytes": None if job is None else job.peak_memory_bytes,
        "seconds": time.perf_counter() - began,
        "device": "cpu" if job is None or job.accelerator == "cpu" or gpu is None else gpu.name,
    }
    options.result.write_text(json.dumps(result), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="training.fit", description=__doc__)
    parser.add_argument("--result", type=Path, required=True)
    for name in ("--steps", "--sequence_length", "--vocabulary"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--memory_limit", type=int, default=0, help="bytes; 0 is no limit")
    parser.add_argument("hyperparameters", nargs="*")
    return parser


def _limit_memory(limit: int, place: str) -> None:
    """Make allocations beyond the limit fail.

    A process maps far more than it holds, libraries above all; so on a CPU the limit counts from
    what the process holds now, and what it maps beside that stays free.
    """
    if not limit:
        return
    if place == "cuda" and torch.cuda.is_available():
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), 0)
        return
    page = resource.getpagesize()
    sizes = Path("/proc/self/statm").read_text().split()[:2]
    mapped, resident = (int(each) * page for each in sizes)
    if limit <= resident:
        raise InputError(
            f"the memory limit is {limit / 1e6:.0f} MB, and the program alone holds "
            f"{resident / 1e6:.0f} MB; give it more"
        )
    most = mapped - resident + limit
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _take_steps(job: Job, recipe: Hyperparameters, options: argparse.Namespace) -> None:
    check_precision(recipe.precision, job.accelerator)
    recipe = dataclasses.replace(recipe, epochs=options.steps, max_steps=0)
    manifest = Manifest(
        labels=tuple(str(number) for number in range(LABELS)),
        counts={"train": recipe.batch_size},
        sequence_length=options.sequence_length,
        vocabulary_size=options.vocabulary,
        pad_token_id=0,
        digests={},
    )
    draw, shape = np.random.default_rng(0), (recipe.batch_size, options.sequence_length)
    documents = PreparedSplit(
        input_ids=draw.integers(1, options.vocabulary, shape, dtype=np.int32),
        attention_mask=np.ones(shape, dtype=np.int8),
        labels=draw.integers(0, LABELS, recipe.batch_size, dtype=np.int64),
        ids=np.arange(recipe.batch_size).astype(str),
    )
    host = torch.device("cpu") if job.compiles_whole_steps else job.device
    train(
        job,
        job.compile(build_model(recipe, manifest).to(host)),
        source=BatchSource(documents, host),
        hyperparameters=recipe,
        length=run_length(recipe, recipe.batch_size),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
