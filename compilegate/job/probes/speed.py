"""The paired speed probe: how much faster is this job's step than the baseline's, here and now?

Jobs run at different times beside different neighbours. So after training, blocks of the baseline's
step and of the job's own take turns in one process, on the captured steps, at equal weights, with
optimizers whose state is thrown away. The gate judges the ratios of the pairs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import inspect
import math
import time
from dataclasses import dataclass
from typing import List, Sequence, Tuple

import numpy as np
import torch

from compilegate.job.compilers import Compiler
from compilegate.job.evidence import PairedBlocks, PairedSpeedRecord
from compilegate.job.machine.numerics import AUTOCAST, preserved_generators
from compilegate.job.machine.world import ALONE, World
from compilegate.job.probes.capture import (
    Call,
    Compiled,
    Forward,
    ObstacleError,
    attempted,
    named_output_tensors,
    no_new_graphs,
    tensors_in,
    with_tensors,
)
from compilegate.job.probes.state import PreservedState, captured_modes

SHARE_OF_TRAINING = 0.05
MOST_SECONDS = 60.0
"""What the probe may take by default: a share of the training's time, and no more than this."""
BLOCK_SECONDS = 0.05
"""Long beside the timer and a turn of the scheduler; short beside changes of a machine's load."""
SHORTEST_BLOCK_SECONDS = 0.002
"""Where there is little time, blocks are shorter, but not shorter than this."""
LEAST_PAIRS, MOST_PAIRS = 6, 200
"""Fewer pairs say nothing; more of them add little. Both are even: pairs come in twos."""
_RATE = 1e-6
"""The learning rate's factor while steps are timed: the work is the same, and weights stay put."""
WARM_UP_SHARE = 0.1  # the share of its time for a warm-up round of the captured steps on both sides


def seconds_allowed(declared: float | None, train_seconds: float) -> float:
    """How long the probe may take after a training of `train_seconds`; zero is not at all."""
    return min(SHARE_OF_TRAINING * train_seconds, MOST_SECONDS) if declared is None else declared


@dataclass(frozen=True)
class Side:
    """How one of the two trains whose steps are compared."""

    compiler: str
    batch_size: int  # what each process takes in a step
    precision: str = "fp32"  # fp32, bf16 or fp16
    padding: str | None = None
    """How texts of different lengths come into batches; None is as the other one does it."""


@preserved_generators()
def probe_speed(
    compiled: Sequence[Compiled],
    optimizers: Sequence[torch.optim.Optimizer],
    *,
    compiler: Compiler,
    candidate: Side,
    baseline: Side,
    seconds: float,
    seed: int,
    world: World = ALONE,
    block_seconds: float = BLOCK_SECONDS,
    most_pairs: int = MOST_PAIRS,
) -> tuple[PairedSpeedRecord, PairedBlocks | None]:
    """Time the captured steps as this job takes them, and in turns as its baseline would.

    `optimizers` are those that stepped in training. `seconds` bound all of it but the blocks under
    way; `seed` decides which block of a pair comes first. The training's state is afterwards what
    it was. Where there is nothing to compare, the record says why. Raises nothing.
    """
    began = time.perf_counter()

    def measured() -> tuple[int, PairedBlocks]:
        _require_steps_here(compiler, optimizers, baseline, world)
        recent = [each.with_calls_on_device() for each in compiled]
        steps = _captured_steps(recent)
        theirs = _as_baseline(steps, candidate, baseline)
        calls = [(call.arguments, call.named) for each in recent for call in each.calls]
        state = PreservedState([each.module for each in recent], optimizers, inputs=calls)
        with contextlib.ExitStack() as stack:
            stack.enter_context(no_new_graphs(compiler))
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            if gc.isenabled():  # garbage is collected between blocks, not in one of them
                stack.callback(gc.enable)
                gc.disable()
            for each in recent:
                stack.enter_context(captured_modes(each))
            stack.enter_context(state)
            own = [[_ReplayedCall(each.compiled, call) for each, call in step] for step in steps]
            timer = _Timer(state, optimizers, [own, theirs], began + seconds, seconds)
            return timer.timed(block_seconds, most_pairs, seed)

    found, obstacle = attempted(measured)
    record = PairedSpeedRecord(
        seconds=time.perf_counter() - began,
        baseline_compiler=baseline.compiler,
        baseline_batch_size=baseline.batch_size,
        candidate_batch_size=candidate.batch_size,
        steps_per_block=0 if found is None else found[0],
        obstacle=obstacle,
    )
    return record, None if found is None else found[1]


def _require_steps_here(
    compiler: Compiler, optimizers: Sequence[torch.optim.Optimizer], baseline: Side, world: World
) -> None:
    if compiler.compiles_whole_steps:
        raise ObstacleError(
            "the compiler traces whole steps and has the device to itself, so the baseline's step "
            "cannot run in the same process"
        )
    if baseline.compiler != "eager":
        raise ObstacleError(
            f"the baseline is compiled too, by {baseline.compiler}, and its compiled step is not "
            "in this process"
        )
    if not world.alone:
        raise ObstacleError(
            f"{world.size} processes trained together, and the blocks of one process would lack "
            "their exchange of gradients"
        )
    for each in optimizers:  # such as LBFGS
        closure = inspect.signature(type(each).step).parameters.get("closure")
        if closure is not None and closure.default is closure.empty:
            raise ObstacleError(
                f"{type(each).__name__} calls the model as often as it likes within its own step, "
                "so what was captured is no step that can be taken again"
            )


# What a step is.

_Steps = List[List[Tuple[Compiled, Call]]]


def _captured_steps(compiled: Sequence[Compiled]) -> _Steps:
    """The calls of each captured step. Where a step made more than were kept, as in gradient
    accumulation, those stand for the others. Raises ObstacleError without any."""
    found: _Steps = []
    for number in sorted({call.step for each in compiled for call in each.calls}):
        found.append([])
        for each in compiled:
            calls = [call for call in each.calls if call.step == number]
            wanted = max(each.calls_a_step, len(calls)) if calls else 0
            found[-1] += [(each, calls[turn % len(calls)]) for turn in range(wanted)]
    if not found:
        raise ObstacleError("none of the captured steps called what was compiled")
    if all(each is None for step in found for _, call in step for each in call.cotangents.values()):
        raise ObstacleError(
            "no gradient came back to what the compiled functions returned in the captured steps"
        )
    return found


def _as_baseline(steps: _Steps, candidate: Side, baseline: Side) -> list[list[_ReplayedCall]]:
    """The same steps uncompiled, with the baseline's batch size and precision. Raises ObstacleError
    where they cannot be made of what was captured."""
    if None not in (candidate.padding, baseline.padding) and candidate.padding != baseline.padding:
        raise ObstacleError(
            f"the baseline's padding is {baseline.padding!r} and this job's {candidate.padding!r}, "
            "so the baseline's batches have other lengths than those that this job saw"
        )
    ours, theirs = candidate.precision, baseline.precision
    if ours != theirs:
        _require_autocast(steps, ours, theirs)
        steps = [[(one, _under(theirs, call, ours)) for one, call in step] for step in steps]
    old, new = candidate.batch_size, baseline.batch_size
    if old != new:
        steps = [[(one, _with_batch(call, old, new)) for one, call in step] for step in steps]
    return [[_ReplayedCall(one.eager, call, old, new) for one, call in step] for step in steps]


def _require_autocast(steps: _Steps, ours: str, theirs: str) -> None:
    found = f"the baseline trains in {theirs} and this job in {ours}"
    if not any(call.autocast.precision == ours for step in steps for _, call in step):
        raise ObstacleError(f"{found}, not by autocast, so one cannot be made of the other")
    for each in (each for one, _ in steps[0] for each in one.module.parameters()):
        if each.is_floating_point() and each.dtype is not torch.float32:
            raise ObstacleError(
                f"{found}, and the model has parameters in {str(each.dtype)[6:]}, so autocast "
                "cannot make one of the other"
            )


def _under(theirs: str, call: Call, ours: str) -> Call:
    """The call under the baseline's autocast; a part outside of the script's autocast stays out."""
    before = call.autocast
    if before.precision != ours:
        return call
    dtype = AUTOCAST.get(theirs, before.dtype)
    now = dataclasses.replace(before, enabled=theirs in AUTOCAST, dtype=dtype, cache_enabled=True)
    return dataclasses.replace(call, autocast=now)


def _with_batch(call: Call, old: int, new: int) -> Call:
    """The call with batches of another size: tensors of `old` rows are cut or repeated."""
    inputs = tensors_in([call.arguments, call.named])
    if not any(each.dim() and each.shape[0] == old for each in inputs):
        raise ObstacleError(
            f"the baseline's batch size is {new}, and no input of a captured call has this job's, "
            f"{old}, as its first dimension, so it cannot be cut or repeated to that size"
        )
    unclear = [each for each in inputs if old in each.shape[1:] and each.shape[0] != old]
    if unclear:
        raise ObstacleError(
            f"the baseline's batch size is {new}, and an input of shape {tuple(unclear[0].shape)} "
            f"has this job's, {old}, elsewhere than in its first dimension, so it is not known "
            "which dimensions count examples"
        )

    def resized(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.dim() or tensor.shape[0] != old:
            return tensor
        return _with_rows(tensor.detach(), new).requires_grad_(tensor.requires_grad)

    arguments, named = with_tensors(call.arguments, resized), with_tensors(call.named, resized)
    return dataclasses.replace(call, arguments=arguments, named=named)


def _with_rows(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    times = -(-rows // tensor.shape[0])
    return torch.cat([tensor] * times)[:rows].clone()


class _ReplayedCall:
    """One call, to be made again and again."""

    def __init__(self, function: Forward, call: Call, old: int = 1, new: int = 1) -> None:
        """`old` and `new` are the batch sizes of the captured call and of this one."""
        self._function, self._call = function, call
        self.inputs = tensors_in([call.arguments, call.named])
        self._old, self._new = old, new
        self._gradients: dict[str, torch.Tensor] | None = None
        """Those of its outputs, in their shapes; None before its first time."""

    def __call__(self) -> None:
        """Forward and backward. Raises ObstacleError where the gradients are of other outputs."""
        with self._call.autocast.again():
            output = self._function(*self._call.arguments, **self._call.named)
        tensors = {name: each for name, each in named_output_tensors(output) if each.requires_grad}
        if self._gradients is None:
            captured = self._call.cotangents
            if captured.keys() != tensors.keys():
                raise ObstacleError(
                    f"a captured call returned {len(captured)} tensors with gradients, and now "
                    f"returns {len(tensors)}"
                )
            self._gradients = {
                name: self._fitting(each, tensors[name])
                for name, each in captured.items()
                if each is not None
            }
        if self._gradients:
            starts = [tensors[name] for name in self._gradients]
            torch.autograd.backward(starts, [*self._gradients.values()])

    def _fitting(self, gradient: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        """Cut or repeat what counts by examples: (batch x length, classes) as well as (batch,
        classes)."""
        if gradient.shape != output.shape:
            if (
                gradient.dim() != output.dim()
                or gradient.shape[1:] != output.shape[1:]
                or gradient.shape[0] * self._new != output.shape[0] * self._old
            ):
                raise ObstacleError(
                    f"an output that had shape {tuple(gradient.shape)} in training has shape "
                    f"{tuple(output.shape)} in the probe"
                )
            gradient = _with_rows(gradient, output.shape[0])
        return gradient.to(output.dtype)


# How steps are timed.


class _Timer:
    """Times steps of both sides in a row, from the preserved state on."""

    def __init__(
        self,
        state: PreservedState,
        optimizers: Sequence[torch.optim.Optimizer],
        sides: list[list[list[_ReplayedCall]]],
        ends: float,
        seconds: float,
    ) -> None:
        self._state, self._optimizers, self._leaves = state, optimizers, state.leaves
        self._sides, self._ends, self._seconds = sides, ends, seconds

    def _left(self) -> float:
        return self._ends - time.perf_counter()

    def _begin(self) -> None:
        """Put the state back to where every block starts: both sides do the same work."""
        self._state.restore()
        for group in (group for each in self._optimizers for group in each.param_groups):
            if isinstance(group.get("lr"), torch.Tensor):
                group["lr"].mul_(_RATE)
            elif isinstance(group.get("lr"), (int, float)):
                group["lr"] *= _RATE

    def _take(self, side: int, count: int) -> float:
        """Wall-clock seconds of `count` steps in a row, from the first captured one."""
        steps = self._sides[side]
        self._synchronise()
        began = time.perf_counter()
        for number in range(count):
            calls = steps[number % len(steps)]
            for call in calls:
                call()
            for optimizer in self._optimizers:
                optimizer.step()
            for each in self._leaves:
                each.grad = None
            for each in (each for call in calls for each in call.inputs):
                each.grad = None
        self._synchronise()
        return time.perf_counter() - began

    def _synchronise(self) -> None:
        for device in self._state.devices:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            elif device.type != "cpu" and hasattr(getattr(torch, device.type, None), "synchronize"):
                getattr(torch, device.type).synchronize()

    def _planned(self, block_seconds: float) -> tuple[int, int, float]:
        """Warm up both sides, and plan the longest blocks of which `LEAST_PAIRS` pairs fit: steps
        of a block, untimed steps before it, and seconds of a pair. Raises ObstacleError where there
        is no time for them."""
        self._begin()
        quickest = self._take(0, 1)
        if self._left() > 0:  # the very first step is slower than any other
            quickest = min(quickest, self._take(0, 1))
        self._require(LEAST_PAIRS * quickest, 2 * LEAST_PAIRS * quickest)
        rounds = max(1, int(WARM_UP_SHARE * self._seconds / quickest / 2))
        self._sides = [side[:rounds] for side in self._sides]
        times: list[float] = []
        for number, side in enumerate(self._sides):
            self._begin()
            self._take(number, len(side))
            times.append(self._take(number, len(side)) / len(side))
        began = time.perf_counter()
        self._begin()
        restoring = time.perf_counter() - began
        quick, both, period = min(times), sum(times), self._period()
        # Whole periods, where there is time: the captured batches may differ in their length.
        wanted = math.ceil(block_seconds / (quick * period)) * period
        lead_in = 1 if wanted > 2 else 0
        around = lead_in * both + 2 * restoring
        steps = min(wanted, int((self._left() / LEAST_PAIRS - around) / both))
        if steps > period:
            steps -= steps % period
        if steps < wanted and (steps < 1 or steps * quick < SHORTEST_BLOCK_SECONDS):
            least = min(wanted, math.ceil(SHORTEST_BLOCK_SECONDS / quick))
            self._require(math.inf, LEAST_PAIRS * (least * both + around))
        return steps, lead_in, steps * both + around

    def _period(self) -> int:
        """After how many steps the work is the same again: one where all have the same shapes."""
        shapes = {
            tuple(tuple(tensor.shape) for call in calls for tensor in call.inputs)
            for calls in self._sides[0]
        }
        return 1 if len(shapes) == 1 else len(self._sides[0])

    def _require(self, least: float, needed: float) -> None:
        if self._left() < least:
            used = self._seconds - self._left()
            raise ObstacleError(
                f"the training was too short: the probe may take {self._seconds:.2g} s and needs "
                f"{used + needed:.2g} s or more; train longer, or set gate.speed_probe_seconds"
            )

    def timed(self, block_seconds: float, most_pairs: int, seed: int) -> tuple[int, PairedBlocks]:
        """Time pairs of blocks until there are enough or the time is over; and the steps of a
        block."""
        count, lead_in, pair_seconds = self._planned(block_seconds)
        chance = np.random.default_rng(seed)
        first: list[bool] = []
        seconds: list[list[float]] = []
        while len(seconds) < LEAST_PAIRS or (
            len(seconds) < most_pairs and self._left() >= 2 * pair_seconds
        ):
            # Of two pairs the baseline comes first in one, so that a steady drift of the machine
            # favours neither; which one, chance says.
            turn = bool(chance.integers(2))
            for baseline_first in (turn, not turn):
                first.append(baseline_first)
                seconds.append([0.0, 0.0])
                for side in (1, 0) if baseline_first else (0, 1):
                    self._begin()
                    gc.collect(0)  # of what the last block left; none is collected within one
                    self._take(side, lead_in)
                    seconds[-1][side] = self._take(side, count) / count
        own, theirs = np.array(seconds).T
        return count, PairedBlocks(theirs, own, np.array(first))
