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
from typing import Any, Dict, Optional, Sequence

import numpy as np
import torch
import transformers

from compilegate.job import ArmError, InputError, Job, check_precision, this_machine
from compilegate.job.errors import one_sentence
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
_SAID_BY_ONEDNN = "could not create a primitive"
"""All that it says of any failure. With "descriptor" after it, the operation is unknown to it."""


def main(arguments: Sequence[str]) -> int:
    """Try it and write the result; the exit status is 0 whatever the result."""
    transformers.utils.logging.disable_progress_bar()
    options = _parser().parse_args(arguments)
    began = time.perf_counter()
    result: Dict[str, Any] = {"outcome": FITS, "reason": None}
    job: Optional[Job] = None
    try:
        request = read_arguments(options.hyperparameters, _NO_FOLDERS)
        _volunteer()
        job = _job(request)
        _limit_memory(options.memory_limit, job.accelerator)
        _take_steps(job, request, options)
    except (InputError, ArmError, MemoryError, RuntimeError, OSError) as error:
        ran_out = isinstance(error, MemoryError) or any(
            said in str(error) for said in _SAID_OF_MEMORY
        )
        ran_out = ran_out or (bool(options.memory_limit) and str(error) == _SAID_BY_ONEDNN)
        result = {"outcome": OUT_OF_MEMORY if ran_out else FAILED, "reason": one_sentence(error)}
    result["peak_memory_bytes"] = None if job is None else job.peak_memory_bytes
    result["seconds"] = time.perf_counter() - began
    has = this_machine().accelerators
    on_host = job is None or job.accelerator == "cpu" or has is None
    result["device"] = "cpu" if on_host else has.name
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


def _limit_memory(limit: int, place: str) -> None:
    """Make allocations beyond the limit fail.

    A process maps far more than it holds, libraries above all; so on a CPU the limit counts from
    what is held by now, and what is mapped beside it stays free.
    """
    if not limit:
        return
    if place == "cuda" and torch.cuda.is_available():
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), 0)
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


def _job(request: JobArguments) -> Job:
    """The job without its probes: what they keep is no part of a step's memory."""
    transformers.set_seed(request.seed)
    return Job(
        dataclasses.replace(
            request.told(), parity_steps=0, baseline=None, compile_cache=None, recipe={}
        )
    )


def _take_steps(job: Job, request: JobArguments, options: argparse.Namespace) -> None:
    check_precision(request.hyperparameters.precision, job.accelerator)
    documents = request.hyperparameters.batch_size
    hyperparameters = dataclasses.replace(
        request.hyperparameters, epochs=options.steps, max_steps=0
    )
    manifest = Manifest(
        labels=tuple(str(number) for number in range(LABELS)),
        counts={"train": documents},
        sequence_length=options.sequence_length,
        vocabulary_size=options.vocabulary,
        pad_token_id=0,
        digests={},
    )
    host = torch.device("cpu") if job.compiles_whole_steps else job.device
    model = build_model(hyperparameters, manifest).to(host)
    train(
        job,
        job.compile(model),
        source=BatchSource(_made_up(documents, manifest), host),
        hyperparameters=hyperparameters,
        length=run_length(hyperparameters, documents),
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
