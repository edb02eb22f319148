"""The paired speed probe: how much faster is this job's step than the baseline's, here and now?

Jobs are timed at different times, beside different neighbours, and their ratio has all of that in
it. So after training, blocks of the baseline's step and of the job's own step take turns in one
process: what slows the machine down for longer than a block slows both. What is timed is the
captured steps taken again (compilegate.job.probes.replay), at equal weights, with optimizers whose
state is thrown away. The gate judges the ratios of the pairs.

    record, blocks = probe_speed(compiled, optimizers, compiler=compiler, ..., seconds=20.0)
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import inspect
import math
import time
from dataclasses import dataclass
from typing import Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch

from compilegate.job.compilers import Compiler
from compilegate.job.evidence import PairedBlocks, PairedSpeedRecord
from compilegate.job.machine.generators import preserved_generators
from compilegate.job.machine.world import ALONE, World
from compilegate.job.probes.capture import Compiled, brought_back, tensors_in
from compilegate.job.probes.obstacles import ObstacleError, attempted, no_new_graphs
from compilegate.job.probes.replay import Side, Steps, baseline_steps, candidate_steps
from compilegate.job.probes.state import PreservedState, captured_modes

SHARE_OF_TRAINING = 0.05
MOST_SECONDS = 60.0
"""What the probe may take where the workload does not say: a share of the training's time, and no
more than this."""

BLOCK_SECONDS = 0.05
"""A block's length: long beside the timer, one synchronisation and a turn of the scheduler; short
beside the time in which a machine's load changes."""
SHORTEST_BLOCK_SECONDS = 0.002
"""Where there is little time, blocks are shorter, but not shorter than this."""
LEAST_PAIRS, MOST_PAIRS = 6, 200
"""Fewer pairs say nothing; more of them add little. Both are even; see `_timed`."""
MOST_CAPTURED_STEPS = 8
_RATE = 1e-6
"""The learning rate's factor while steps are timed. The work is the same, and the weights stay
where they are: the same gradients, over and over, would carry them far away."""
WARM_UP_SHARE = 0.1
"""The share of its time in which the probe takes a round of the captured steps on both sides; where
they take longer, it does with the first of them."""


def seconds_allowed(declared: Optional[float], train_seconds: float) -> float:
    """How long the probe may take after a training of `train_seconds`; zero is not at all."""
    if declared is not None:
        return declared
    return min(SHARE_OF_TRAINING * train_seconds, MOST_SECONDS)


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
) -> Tuple[PairedSpeedRecord, Optional[PairedBlocks]]:
    """Time the captured steps as this job takes them, and in turns as its baseline would.

    `compiled` are the functions that the job compiled with `compiler`, and `optimizers` those that
    stepped in training. `seconds` bound all of it, preparations included, but for the blocks that
    are under way. `seed` decides which block of a pair comes first. Blocks take `block_seconds`
    where there is time, and there are `most_pairs` pairs of them at most.

    Weights, buffers, gradients, training modes, the optimizers and the random generators are
    afterwards what they were before. Where there is nothing to compare, the record says why and
    there are no blocks. Nothing is raised: a trained model must not be lost to a measurement.
    """
    budget = _Budget(seconds, block_seconds, most_pairs)
    sides = candidate, baseline

    def measured() -> Tuple[int, PairedBlocks]:
        _check(compiler, baseline, world)
        _require_own_steps(optimizers)
        recent = [_recent(each) for each in compiled]
        with no_new_graphs(compiler):
            return _measure(recent, optimizers, sides, budget, np.random.default_rng(seed))

    found, obstacle = attempted(measured)
    own = candidate.batch_size or baseline.batch_size or _examples(compiled)
    record = PairedSpeedRecord(
        seconds=budget.elapsed(),
        baseline_compiler=baseline.compiler,
        baseline_batch_size=baseline.batch_size or own,
        candidate_batch_size=own,
        steps_per_block=0 if found is None else found[0],
        obstacle=obstacle,
    )
    return record, None if found is None else found[1]


class _Budget:
    """The time that the probe has, and how it is to be spent."""

    def __init__(self, seconds: float, block_seconds: float, most_pairs: int) -> None:
        self.seconds = seconds
        self.block_seconds = block_seconds
        self.most_pairs = most_pairs
        self._began = time.perf_counter()

    def elapsed(self) -> float:
        return time.perf_counter() - self._began

    def left(self) -> float:
        return self.seconds - self.elapsed()


def _check(compiler: Compiler, baseline: Side, world: World) -> None:
    """Raises ObstacleError where one process cannot take both steps."""
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


def _require_own_steps(optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Raises ObstacleError for an optimizer that has to be given the model's step, as LBFGS."""
    for each in optimizers:
        closure = inspect.signature(type(each).step).parameters.get("closure")
        if closure is not None and closure.default is closure.empty:
            raise ObstacleError(
                f"{type(each).__name__} calls the model as often as it likes within its own step, "
                "so what was captured is no step that can be taken again"
            )


def _recent(compiled: Compiled) -> Compiled:
    """With the calls of so many steps at most, those that were kept last."""
    numbers = sorted({call.step for call in compiled.calls})[-MOST_CAPTURED_STEPS:]
    calls = [brought_back(call) for call in compiled.calls if call.step in numbers]
    return dataclasses.replace(compiled, calls=calls)


def _examples(compiled: Sequence[Compiled]) -> int:
    """How many examples a step takes, where nobody said: the first dimension of the first input."""
    for each in compiled:
        for call in each.calls:
            for tensor in tensors_in([call.arguments, call.named]):
                if tensor.dim():
                    return int(tensor.shape[0])
    return 1


def _measure(
    compiled: Sequence[Compiled],
    optimizers: Sequence[torch.optim.Optimizer],
    sides: Tuple[Side, Side],
    budget: _Budget,
    chance: np.random.Generator,
) -> Tuple[int, PairedBlocks]:
    """How many steps a block has, and the blocks; `sides` are the job's own and the baseline's."""
    own, theirs = candidate_steps(compiled), baseline_steps(compiled, *sides)
    calls = [(call.arguments, call.named) for each in compiled for call in each.calls]
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(_without_collections())
        for each in compiled:
            stack.enter_context(captured_modes(each))
        state = PreservedState([each.module for each in compiled], optimizers, inputs=calls)
        stack.enter_context(state)
        timer = _Timer(state, optimizers)
        pair = _Pair(
            baseline=Steps(theirs, optimizers, state.leaves),
            candidate=Steps(own, optimizers, state.leaves),
        )
        pair, times = _warmed_up(pair, timer, budget)
        plan = _planned(times, pair.candidate.period, budget)
        return plan.steps, _timed(pair, timer, budget, plan, chance)


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Python collects its garbage between blocks, not in one of them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True)
class _Pair:
    baseline: Steps
    candidate: Steps


class _Timer:
    """Times steps in a row, from the preserved state on."""

    def __init__(self, state: PreservedState, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._state = state
        self._optimizers = optimizers

    def begin(self) -> None:
        """Put the state back to where every block starts: both sides do the same work."""
        self._state.restore()
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                if isinstance(group.get("lr"), torch.Tensor):
                    group["lr"].mul_(_RATE)
                elif isinstance(group.get("lr"), (int, float)):
                    group["lr"] *= _RATE

    def seconds(self, steps: Steps, count: int) -> float:
        """Wall-clock seconds of `count` steps in a row."""
        self._synchronise()
        began = time.perf_counter()
        for number in range(count):
            steps.take(number)
        self._synchronise()
        return time.perf_counter() - began

    def _synchronise(self) -> None:
        for device in self._state.devices:
            wait = getattr(getattr(torch, device.type, None), "synchronize", None)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            elif wait is not None:
                wait()


@dataclass(frozen=True)
class _Plan:
    """How the probe's time is spent."""

    steps: int
    """How many a block has."""
    lead_in: int
    """Steps before each block that are not timed: caches still hold what the other side used."""
    pair_seconds: float
    """What a pair of blocks takes, all that is around them included."""


def _warmed_up(pair: _Pair, timer: _Timer, budget: _Budget) -> Tuple[_Pair, _Times]:
    """Fill caches and allocators on both sides, and time them: no more of the captured steps than
    there is time for. Raises ObstacleError where there is none."""
    timer.begin()
    quickest = timer.seconds(pair.candidate, 1)
    if budget.left() > 0:  # the very first step is slower than any other
        quickest = min(quickest, timer.seconds(pair.candidate, 1))
    if budget.left() < LEAST_PAIRS * quickest:
        raise _too_short(budget, budget.elapsed() + 2 * LEAST_PAIRS * quickest)
    rounds = WARM_UP_SHARE * budget.seconds / quickest
    pair = _Pair(*(each.first(max(1, int(rounds / 2))) for each in (pair.baseline, pair.candidate)))
    times: List[float] = []
    for each in (pair.candidate, pair.baseline):
        timer.begin()
        timer.seconds(each, len(each))
        times.append(timer.seconds(each, len(each)) / len(each))
    began = budget.elapsed()
    timer.begin()
    return pair, _Times(*times, restoring=budget.elapsed() - began)


@dataclass(frozen=True)
class _Times:
    """In seconds."""

    own: float
    """A step of the job's own."""
    theirs: float
    """A step of the baseline's."""
    restoring: float
    """Putting the state back."""


def _planned(times: _Times, period: int, budget: _Budget) -> _Plan:
    """The longest blocks up to the wanted ones of which at least `LEAST_PAIRS` pairs fit. Raises
    ObstacleError where there is no time for them."""
    quick, both = min(times.own, times.theirs), times.own + times.theirs
    # Whole periods, where there is time: the captured batches may differ in their length.
    wanted = math.ceil(budget.block_seconds / (quick * period)) * period
    lead_in = 1 if wanted > 2 else 0
    around = lead_in * both + 2 * times.restoring
    fitting = int((budget.left() / LEAST_PAIRS - around) / both)
    steps = min(wanted, fitting)
    if steps > period:
        steps -= steps % period
    if steps < wanted and (steps < 1 or steps * quick < SHORTEST_BLOCK_SECONDS):
        least = min(wanted, math.ceil(SHORTEST_BLOCK_SECONDS / quick))
        needed = budget.elapsed() + LEAST_PAIRS * (least * both + around)
        raise _too_short(budget, needed)
    return _Plan(steps, lead_in, steps * both + around)


def _too_short(budget: _Budget, needed: float) -> ObstacleError:
    return ObstacleError(
        f"the training was too short: the probe may take {budget.seconds:.2g} s and needs "
        f"{needed:.2g} s or more; train longer, or set gate.speed_probe_seconds"
    )


def _timed(
    pair: _Pair, timer: _Timer, budget: _Budget, plan: _Plan, chance: np.random.Generator
) -> PairedBlocks:
    """Time pairs of blocks, until there are enough or the time is over."""
    first: List[bool] = []
    seconds: List[Tuple[float, float]] = []

    def block(steps: Steps) -> float:
        timer.begin()
        gc.collect(0)  # of what the last block left; none is collected within one
        timer.seconds(steps, plan.lead_in)
        return timer.seconds(steps, plan.steps) / plan.steps

    def has_time() -> bool:
        return budget.left() >= 2 * plan.pair_seconds and len(seconds) < budget.most_pairs

    while len(seconds) < LEAST_PAIRS or has_time():
        # Of two pairs the baseline comes first in one, so that a steady drift of the machine
        # favours neither; which one, chance says.
        turn = bool(chance.integers(2))
        for baseline_first in (turn, not turn):
            if baseline_first:
                theirs, own = block(pair.baseline), block(pair.candidate)
            else:
                own, theirs = block(pair.candidate), block(pair.baseline)
            first.append(baseline_first)
            seconds.append((theirs, own))
    table = np.array(seconds)
    return PairedBlocks(table[:, 0], table[:, 1], np.array(first))
