"""One training job in this process: train, save, evaluate the saved model, write the evidence.

`training/train.py` runs this module as a child process; `compilegate.job.launch.supervisor`
explains why.
"""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from typing import Any, Dict, Optional, Sequence

import torch
import transformers

from compilegate.job import (
    ArmError,
    InputError,
    Job,
    Scalar,
    check_precision,
    joined,
    keep_freed_memory,
    settings_digest,
    start,
    world_of,
)
from compilegate.job.launch.torchrun import tell_failure
from training.arguments import JobArguments, read_arguments
from training.checkpoints import Checkpoints, Identity
from training.data.batches import BatchSource
from training.data.padding import BatchPlan
from training.data.prepared import PreparedData, read_prepared
from training.evaluation import evaluate
from training.hyperparameters import Hyperparameters
from training.loop import train
from training.model import build_model, load_model, save_model
from training.schedule import run_length


def main(arguments: Sequence[str]) -> int:
    """Run the job; returns the exit status."""
    transformers.utils.logging.disable_progress_bar()
    job: Optional[Job] = None
    try:
        request = read_arguments(arguments, os.environ)
        log_every = request.hyperparameters.log_every_steps or None
        job = start(config=request.config, log_every=log_every)
        run(request, job)
    except Exception as error:  # noqa: BLE001 - whatever it is, SageMaker must show the reason
        if not isinstance(error, (InputError, ArmError)):
            traceback.print_exc()
        if job is None or not job.fail(error):
            return tell_failure(error, os.environ)
    return 0


def run(request: JobArguments, job: Job) -> None:
    """Train, evaluate and write the evidence.

    Raises InputError for a request or data that cannot be used, and whatever the training raises.
    """
    hyperparameters = request.hyperparameters
    check_precision(hyperparameters.precision, job.accelerator)
    data = read_prepared(request.prepared)
    # A compiler that traces whole steps keeps the accelerator for itself.
    device = torch.device("cpu") if job.compiles_whole_steps else job.device
    if device.type == "cpu":
        keep_freed_memory()
    length = run_length(hyperparameters, data.manifest.counts["train"], job.world.size)
    plan = BatchPlan.of(data.train, hyperparameters, length, job.seed)
    job.shapes(max(len(plan.shapes), 1))  # one graph serves shapes without number
    job.padding(plan.record())
    job.settings(
        warmup_steps=length.warmup,
        sequence_length=data.manifest.sequence_length,
        vocabulary=data.manifest.vocabulary_size,
        data_order=plan.order_digest(length.steps),
    )
    job.trained_on(
        ids=data.train.ids, inputs=data.train.input_ids, slices=data.train.slices or None
    )
    transformers.set_seed(job.seed)
    model = build_model(hyperparameters, data.manifest).to(device)
    job.compile(model, graph=compiled_graph(hyperparameters, model, plan.shapes))
    checkpoints = _checkpoints(request, data)
    with joined(world_of(os.environ), device):
        train(
            job,
            model,
            source=BatchSource(data.train, device),
            hyperparameters=hyperparameters,
            length=length,
            checkpoints=checkpoints,
            validation=data.validation,
        )
    if not job.world.first:
        return
    job.save(lambda folder: save_model(model, data, folder))
    # The files that will be released are evaluated, not the model in memory.
    place = job.evaluation_device
    released = load_model(job.model_folder).to(place)
    job.evaluated(place, "fp32")
    evaluate(job, released, data.validation, place, hyperparameters)
    job.finish()
    if checkpoints is not None:
        checkpoints.finish()


def compiled_graph(
    hyperparameters: Hyperparameters, model: Any, lengths: Sequence[int]
) -> Dict[str, Scalar]:
    """What decides the compiled graphs besides the compiler and its options, for steps of these
    lengths."""
    return {
        "batch_size": hyperparameters.batch_size,
        "sequence_length": lengths[0] if len(lengths) == 1 else ",".join(map(str, lengths)),
        "precision": hyperparameters.precision,
        "model": hashlib.sha256(model.config.to_json_string().encode()).hexdigest(),
    }


def _checkpoints(request: JobArguments, data: PreparedData) -> Optional[Checkpoints]:
    """The checkpoints of this job; None for a job without them."""
    if request.checkpoints is None:
        return None
    config = request.config
    settings = {"config": config.config_digest, "arm": config.arm, "seed": config.seed}
    identity = Identity(
        job=config.job,
        config=settings_digest(settings),
        data=data.digest,
        torch=str(torch.__version__),
    )
    return Checkpoints(request.checkpoints, identity, seconds_between=request.checkpoint_seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
