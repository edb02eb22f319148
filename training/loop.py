"""The training loop: the same code for every arm, around the compiler's forward pass."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, List, Optional

import numpy as np

from compilegate.job import ALONE, Compiler, StepParts, Steps, World
from training.checkpoints import Checkpoints, Course, Return, RunState
from training.data.batches import BatchSource, batches_of_run
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength
from training.update import WeightAverage, WeightUpdate

REPORT_SECONDS = 1.0  # SageMaker keeps one value of a metric a minute; people want a live log


@dataclass(frozen=True)
class TrainingRun:
    """What the loop measured, and what it trained with."""

    steps: Steps
    seconds: float
    """Seconds from before the first step to after the last, interruptions included."""
    graphs: List[List[int]]
    """By process, (its steps,) graphs the compiler had compiled by the end of each step; one
    process, unless the job was resumed."""
    returns: List[Return]
    """One for each process but the first."""
    forward: Callable[..., Any]
    """The compiler's forward pass that every step went through."""


def train(
    model: Any,
    *,
    compiler: Compiler,
    source: BatchSource,
    hyperparameters: Hyperparameters,
    length: RunLength,
    seed: int,
    checkpoints: Optional[Checkpoints] = None,
    world: World = ALONE,
) -> TrainingRun:
    """Train the model in place; its weights are the averaged ones afterwards.

    Each process of a joined `world` calls this; all have the same weights afterwards.

    With `checkpoints`, an interrupted run resumes from its last one, with the same result.

    Raises NonFiniteLossError in a step whose loss is NaN or infinite.
    """
    host = next(model.parameters()).device
    compiler.seed(seed, world)
    model.to(compiler.device(host))
    average = WeightAverage(model, hyperparameters.averaging)
    update = WeightUpdate(model, hyperparameters, length, average=average)
    state = RunState(model, update, average)
    course = Course() if checkpoints is None else checkpoints.resume(state)
    progress = _Progress(length, hyperparameters.batch_size * world.size, course.steps)
    model.train()
    began = clock = time.perf_counter()
    forward = compiler.compile(model)
    parts = StepParts(
        model=model,
        forward=forward,
        update=update,
        precision=hyperparameters.precision,
        device=compiler.device(host),
    )
    take_step = compiler.stepping(parts, world)
    batches = batches_of_run(
        source, hyperparameters, length, seed, first=course.steps, rank=world.rank
    )
    for step, batch in enumerate(compiler.batches(batches), start=course.steps):
        value = take_step(step, batch)
        now = time.perf_counter()
        course.add(value, now - clock, compiler.graphs())
        if checkpoints is not None and course.steps < length.steps and checkpoints.due():
            checkpoints.save(state, course)
            # Not part of any step's time: it is the price of spot capacity, not of a compiler.
            now = time.perf_counter()
        clock = now
        if world.first:
            progress.report(step, value, course.seconds)
    ended = time.perf_counter()
    average.apply()
    model.to(host)
    return TrainingRun(
        steps=Steps(np.array(course.losses), np.array(course.seconds)),
        seconds=time.time() - course.began if course.returns else ended - began,
        graphs=course.graphs,
        returns=course.returns,
        forward=forward,
    )


class _Progress:
    """Prints a line of metrics about once a second, in the form the job's metric regexes read."""

    def __init__(self, length: RunLength, batch_size: int, taken: int) -> None:
        self._length = length
        self._batch_size = batch_size
        self._printed_at = time.perf_counter()
        self._printed_steps = taken

    def report(self, step: int, loss: float, seconds: List[float]) -> None:
        now = time.perf_counter()
        done = step + 1
        if now - self._printed_at < REPORT_SECONDS and done != self._length.steps:
            return
        recent = seconds[self._printed_steps :]
        rate = len(recent) * self._batch_size / sum(recent)
        print(
            f"step={done}/{self._length.steps} epoch={step // self._length.steps_per_epoch + 1} "
            f"train:loss={loss:.4f} train:samples_per_second={rate:.1f}",
            flush=True,
        )
        self._printed_at, self._printed_steps = now, done
