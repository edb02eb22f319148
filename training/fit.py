"""Does a batch of this size fit? Takes a few real training steps on made-up documents.

    python -m training.fit --result fit.json --steps 3 --sequence_length 64 --vocabulary 4096 \
        -- --arm larger-batch --seed 1 --compiler inductor --batch_size 512

After ``--`` come the hyperparameters of a training job. The model, the compiler, the precision and
the loop are that job's; the documents are random tokens of full length, as only shapes take memory.
The result is a file, since a process that runs out of memory may be killed before it says anything.
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
from typing import Any, Dict, Sequence

import numpy as np
import torch
import transformers

from compilegate.job import (
    ArmError,
    InputError,
    check_precision,
    load_compiler,
    one_sentence,
    peak_memory_bytes,
)
from training.arguments import FOLDER_VARIABLES, JobArguments, read_arguments
from training.data.batches import BatchSource
from training.data.prepared import Manifest, PreparedSplit
from training.loop import train
from training.model import build_model
from training.schedule import run_length

FITS = "fits"
OUT_OF_MEMORY = "out of memory"
FAILED = "failed"

LABELS = 16
"""How many classes the made-up documents have: their logits take almost no memory."""

_NO_FOLDERS = dict.fromkeys(FOLDER_VARIABLES, "unused")
_SAID_OF_MEMORY = (
    "out of memory",
    "allocate memory",
    "not enough memory",
    "bad_alloc",
    "Resource temporarily unavailable",  # a thread without room for its stack
)


def main(arguments: Sequence[str]) -> int:
    """Try it and write the result; the exit status is 0 whatever the result."""
    transformers.utils.logging.disable_progress_bar()
    options = _parser().parse_args(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    began = time.perf_counter()
    result: Dict[str, Any] = {"outcome": FITS, "reason": None}
    try:
        job = read_arguments(options.hyperparameters, _NO_FOLDERS)
        _volunteer()
        _limit_memory(options.memory_limit, device)
        _take_steps(job, options, device)
    except (InputError, ArmError, MemoryError, RuntimeError, OSError) as error:
        ran_out = isinstance(error, MemoryError) or any(
            said in str(error) for said in _SAID_OF_MEMORY
        )
        result = {"outcome": OUT_OF_MEMORY if ran_out else FAILED, "reason": one_sentence(error)}
    result["peak_memory_bytes"] = peak_memory_bytes(device)
    result["seconds"] = time.perf_counter() - began
    result["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    options.result.write_text(json.dumps(result), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="training.fit", description=__doc__)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--sequence_length", type=int, required=True)
    parser.add_argument("--vocabulary", type=int, required=True)
    parser.add_argument("--memory_limit", type=int, default=0, help="bytes; 0 is no limit")
    parser.add_argument("hyperparameters", nargs="*")
    return parser


def _volunteer() -> None:
    """If the machine runs out of memory, let the system kill this process and no other."""
    with contextlib.suppress(OSError):  # no Linux
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _limit_memory(limit: int, device: torch.device) -> None:
    """Make allocations beyond the limit fail.

    A process maps far more than it holds, libraries above all; so on a CPU the limit counts from
    what is held by now, and what is mapped beside it stays free.
    """
    if not limit:
        return
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), device)
        return
    page = resource.getpagesize()
    mapped, held = (int(each) * page for each in Path("/proc/self/statm").read_text().split()[:2])
    if limit <= held:
        raise InputError(
            f"the memory limit is {limit / 1e6:.0f} MB, and the program alone holds "
            f"{held / 1e6:.0f} MB; give it more"
        )
    most = mapped - held + limit
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _take_steps(job: JobArguments, options: argparse.Namespace, device: torch.device) -> None:
    check_precision(job.hyperparameters.precision, device.type)
    documents = job.hyperparameters.batch_size
    hyperparameters = dataclasses.replace(job.hyperparameters, epochs=options.steps, max_steps=0)
    manifest = Manifest(
        labels=tuple(str(number) for number in range(LABELS)),
        counts={"train": documents},
        sequence_length=options.sequence_length,
        vocabulary_size=options.vocabulary,
        pad_token_id=0,
        digests={},
    )
    transformers.set_seed(job.seed)
    compiler = load_compiler(job.compiler, job.compiler_settings)
    host = torch.device("cpu") if compiler.compiles_whole_steps else device
    train(
        build_model(hyperparameters, manifest).to(host),
        compiler=compiler,
        source=BatchSource(_made_up(documents, manifest), host),
        hyperparameters=hyperparameters,
        length=run_length(hyperparameters, documents),
        seed=job.seed,
    )


def _made_up(documents: int, manifest: Manifest) -> PreparedSplit:
    draw = np.random.default_rng(0)
    shape = (documents, manifest.sequence_length)
    return PreparedSplit(
        input_ids=draw.integers(1, manifest.vocabulary_size, shape, dtype=np.int32),
        attention_mask=np.ones(shape, dtype=np.int8),
        labels=draw.integers(0, LABELS, documents, dtype=np.int64),
        ids=np.arange(documents).astype(str),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
