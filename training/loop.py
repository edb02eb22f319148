"""The training loop: the same code for every arm, on the public API of `compilegate.job`."""

from __future__ import annotations

import time
from typing import Any, Optional

import torch

from compilegate.job import SEED_LIMIT, Job, NonFiniteLossError
from training.checkpoints import Checkpoints, RunState
from training.data.batches import BatchSource, batches_of_run
from training.evaluation import InterimEvaluation
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength
from training.update import WeightAverage, WeightUpdate

REPORT_SECONDS = 1.0  # SageMaker keeps one value of a metric a minute; people want a live log


def train(
    job: Job,
    model: Any,
    *,
    source: BatchSource,
    hyperparameters: Hyperparameters,
    length: RunLength,
    checkpoints: Optional[Checkpoints] = None,
    interim: Optional[InterimEvaluation] = None,
) -> None:
    """Train the model in place; its weights are the averaged ones afterwards.

    The job compiled it, and it lies on the job's device. Each process of a world that has met calls
    this; all have the same weights afterwards. With `checkpoints`, an interrupted run resumes from
    its last one, with the same result. `interim` evaluates in between, outside of the steps.

    Raises NonFiniteLossError where the loss is NaN or infinite: before the update on a CPU, and
    elsewhere when the losses are fetched.
    """
    host = next(model.parameters()).device
    together = job.distributed(model)
    _draw_own_numbers(job)
    model.to(job.device)
    average = WeightAverage(model, hyperparameters.averaging)
    update = WeightUpdate(model, hyperparameters, length, average=average)
    if job.compiles_whole_steps:
        update.allocate()
    state = RunState(model, update, average)
    if checkpoints is not None:
        checkpoints.resume(job, state)
    first = job.steps_taken
    batches = batches_of_run(
        source, hyperparameters, length, job.seed, first=first, rank=job.world.rank
    )
    progress = _Progress(
        job,
        length,
        hyperparameters.batch_size * job.world.size,
        every=hyperparameters.log_every_steps,
    )
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
            if interim is not None and job.world.first:
                interim.report_if_due(job.steps_taken, length, average.tensors())
            if checkpoints is not None and job.steps_taken < length.steps:
                checkpoints.save_if_due(job, state)
        job.losses()
    except NonFiniteLossError as error:
        described = update.describe(job.steps_taken if error.step is None else error.step)
        raise NonFiniteLossError(f"{error} {described}", step=error.step) from error
    average.apply()
    model.to(host)


def _draw_own_numbers(job: Job) -> None:
    """Have each process draw dropout masks of its own, as rows of one batch do; the first goes on
    as one process alone would. Whole steps draw from their device's generator instead."""
    if not job.world.first and not job.compiles_whole_steps:
        torch.manual_seed(job.seed + job.world.rank * SEED_LIMIT)


class _Progress:
    """Prints lines of metrics, in the form the job's metric regexes read."""

    def __init__(self, job: Job, length: RunLength, batch_size: int, *, every: int) -> None:
        """`batch_size` is of all processes; `every`: steps between two lines, 0 about a second."""
        self._job = job
        self._length = length
        self._batch_size = batch_size
        self._every = every
        self._printed_at = time.perf_counter()
        self._printed_steps = job.steps_taken

    def report(self) -> None:
        """Say how far the job is, if the time has come. Waits for no device."""
        now, done = time.perf_counter(), self._job.steps_taken
        last = done == self._length.steps
        in_time = now - self._printed_at >= REPORT_SECONDS
        due = done % self._every == 0 if self._every else in_time
        if not self._job.world.first or not (due or last):
            return
        loss = self._job.losses()[-1] if last else self._job.latest_loss()
        shown = "" if loss is None else f"train:loss={loss:.4f} "
        rate = (done - self._printed_steps) * self._batch_size / (now - self._printed_at)
        print(
            f"step={done}/{self._length.steps} epoch={-(-done // self._length.steps_per_epoch)} "
            f"{shown}train:samples_per_second={rate:.1f}",
            flush=True,
        )
        self._printed_at, self._printed_steps = now, done
