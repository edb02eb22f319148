"""The training loop: the same code for every arm, on the public API of `compilegate.job`."""

from __future__ import annotations

import time
from typing import Any, Optional

import torch

from compilegate.job import SEED_LIMIT, Job, NonFiniteLossError
from training.checkpoints import Checkpoints, RunState
from training.data.batches import BatchSource
from training.data.padding import BatchPlan
from training.data.prepared import PreparedSplit
from training.evaluation import scores
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength
from training.update import WeightUpdate

REPORT_SECONDS = 1.0  # SageMaker keeps one value of a metric a minute; people want a live log


def train(
    job: Job,
    model: Any,
    *,
    source: BatchSource,
    hyperparameters: Hyperparameters,
    length: RunLength,
    checkpoints: Optional[Checkpoints] = None,
    validation: Optional[PreparedSplit] = None,
) -> None:
    """Train the model in place; its weights are the averaged ones afterwards.

    The job compiled it, and it lies on the job's device. Every process of a joined world calls
    this; all have the same weights afterwards. With `checkpoints`, an interrupted run resumes from
    its last one, with the same result. `validation` is for evaluations between steps.

    Raises NonFiniteLossError if the loss is NaN or infinite: before the update on a CPU, and
    elsewhere when the losses are fetched.
    """
    host = next(model.parameters()).device
    together = job.distributed(model)
    _seed_dropout(job)
    model.to(job.device)
    update = WeightUpdate(model, hyperparameters, length)
    if job.compiles_whole_steps:
        update.allocate()
    state = RunState(model, update)
    if checkpoints is not None:
        checkpoints.resume(job, state)
    first, every = job.steps_taken, hyperparameters.evaluate_every_epochs * length.steps_per_epoch
    plan = BatchPlan.of(source.split, hyperparameters, length, job.seed)
    batches = source.training(
        plan, first, length.steps, rank=job.world.rank, processes=length.world_size
    )
    progress = _Progress(job, hyperparameters, length)
    model.train()
    try:
        for step, batch in enumerate(job.steps(batches), start=first):

            def gradients() -> Any:
                with job.autocast():
                    loss = together(**batch).loss  # noqa: B023 - it is called within the iteration
                update.backward(loss)
                return loss

            job.step(gradients, lambda: update.apply(step))  # noqa: B023
            progress.report()
            done = job.steps_taken
            if done == length.steps:
                continue  # what was trained to the end is evaluated as it will be released
            if validation is not None and job.world.first and every and done % every == 0:
                average = update.average.tensors
                progress.show(scores(model, average, validation, host, hyperparameters))
            if checkpoints is not None:
                checkpoints.save_if_due(job, state)
        job.losses()
    except NonFiniteLossError as error:
        described = update.describe(job.steps_taken if error.step is None else error.step)
        raise NonFiniteLossError(f"{error} {described}", step=error.step) from error
    update.average.apply()
    model.to(host)


def _seed_dropout(job: Job) -> None:
    """Have each process draw dropout masks of its own, as rows of one batch do; the first one draws
    what one process alone would. Whole steps draw from their device's generator instead."""
    if not job.world.first and not job.compiles_whole_steps:
        torch.manual_seed(job.seed + job.world.rank * SEED_LIMIT)


class _Progress:
    """Prints lines of metrics, in the form that the job's metric regexes read."""

    def __init__(self, job: Job, hyperparameters: Hyperparameters, length: RunLength) -> None:
        self._job = job
        self._length = length
        self._documents = hyperparameters.batch_size * length.world_size  # of a step
        self._every = hyperparameters.log_every_steps
        self._printed = time.perf_counter(), job.steps_taken

    def report(self) -> None:
        """Print loss and rate if a line is due. Waits for no device before the last step."""
        now, done = time.perf_counter(), self._job.steps_taken
        at, steps = self._printed
        last = done == self._length.steps
        due = done % self._every == 0 if self._every else now - at >= REPORT_SECONDS
        if not self._job.world.first or not (due or last):
            return
        loss = self._job.losses()[-1] if last else self._job.latest_loss()
        shown = "" if loss is None else f"train:loss={loss:.4f} "
        rate = (done - steps) * self._documents / (now - at)
        self.show(f"{shown}train:samples_per_second={rate:.1f}")
        self._printed = now, done

    def show(self, metrics: str) -> None:
        """Print metrics, and how far the job is."""
        done, steps = self._job.steps_taken, self._length.steps
        epoch = -(-done // self._length.steps_per_epoch)
        print(f"step={done}/{steps} epoch={epoch} {metrics}", flush=True)
