"""Taking a script's captured steps again: forward, backward with the gradients that came back, and
the optimizers' updates; as the job's compiler does it, or as the baseline would.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

import torch

from compilegate.job.probes.capture import (
    Autocast,
    Call,
    Compiled,
    Forward,
    output_tensors,
    tensors_in,
    with_tensors,
)
from compilegate.job.probes.obstacles import ObstacleError
from compilegate.job.stepping.precision import AUTOCAST


@dataclass(frozen=True)
class Side:
    """How one of the two trains whose steps are compared; None is as the other one does it."""

    compiler: str = "eager"
    batch_size: Optional[int] = None
    """What each process takes in a step."""
    precision: Optional[str] = None
    """fp32, bf16 or fp16."""
    padding: Optional[str] = None
    """How texts of different lengths come into batches."""


class Replayed:
    """One call, ready to be made again and again."""

    def __init__(self, function: Forward, call: Call, old: int = 1, new: int = 1) -> None:
        """`old` and `new` are the batch sizes of the captured call and of this one."""
        self.function, self.call = function, call
        self.inputs = tensors_in([call.arguments, call.named])
        self._old, self._new = old, new
        self._prepared: Optional[List[Optional[torch.Tensor]]] = None
        """The gradients for each of its outputs, in their shapes; None before its first time."""

    def __call__(self) -> None:
        """Forward and backward. Raises ObstacleError where the gradients are of other outputs."""
        with self.call.autocast.again():
            output = self.function(*self.call.arguments, **self.call.named)
        tensors = [each for each in output_tensors(output) if each.requires_grad]
        if self._prepared is None:
            captured = self.call.cotangents
            if len(captured) != len(tensors):
                raise ObstacleError(
                    f"a captured call returned {len(captured)} tensors with gradients, and now "
                    f"returns {len(tensors)}"
                )
            self._prepared = [
                None if gradient is None else self._fitting(gradient, tensor)
                for gradient, tensor in zip(captured, tensors)
            ]
        pairs = [pair for pair in zip(tensors, self._prepared) if pair[1] is not None]
        if pairs:
            torch.autograd.backward([each for each, _ in pairs], [each for _, each in pairs])

    def _fitting(self, gradient: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        """With other batches, what counts by examples is longer or shorter: (batch x length,
        classes) as well as (batch, classes)."""
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


class Steps:
    """The captured steps of one side, in their order and from their beginning again."""

    def __init__(
        self,
        steps: Sequence[Sequence[Replayed]],
        optimizers: Sequence[torch.optim.Optimizer],
        leaves: Sequence[torch.Tensor],
    ) -> None:
        """`leaves` get gradients; they have none between two steps."""
        self._steps, self._optimizers, self._leaves = steps, optimizers, leaves

    def first(self, count: int) -> Steps:
        """The first of them alone."""
        return Steps(self._steps[:count], self._optimizers, self._leaves)

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def period(self) -> int:
        """After how many steps the work is the same again: one where all have the same shapes."""
        shapes = {
            tuple(tuple(tensor.shape) for call in calls for tensor in call.inputs)
            for calls in self._steps
        }
        return 1 if len(shapes) == 1 else len(self._steps)

    def take(self, number: int) -> None:
        """Take the step of that number, from 0."""
        calls = self._steps[number % len(self._steps)]
        for call in calls:
            call()
        for optimizer in self._optimizers:
            optimizer.step()
        for each in self._leaves:
            each.grad = None
        for call in calls:
            for each in call.inputs:
                each.grad = None


_Calls = List[List[Tuple[Compiled, Call]]]


def candidate_steps(compiled: Sequence[Compiled]) -> List[List[Replayed]]:
    """The captured steps as this job takes them: calls one after another, each with its backward
    pass. Raises ObstacleError where there are none."""
    found = _by_step(compiled)
    if not found:
        raise ObstacleError("none of the captured steps called what was compiled")
    if all(each is None for step in found for _, call in step for each in call.cotangents):
        raise ObstacleError(
            "no gradient came back to what the compiled functions returned in the captured steps"
        )
    return [[Replayed(each.compiled, call) for each, call in step] for step in found]


def baseline_steps(
    compiled: Sequence[Compiled], candidate: Side, baseline: Side
) -> List[List[Replayed]]:
    """The same steps as the baseline would take them: uncompiled, with its batch size and in its
    precision. Raises ObstacleError where they cannot be made of what was captured."""
    if None not in (candidate.padding, baseline.padding) and candidate.padding != baseline.padding:
        raise ObstacleError(
            f"the baseline's padding is {baseline.padding!r} and this job's {candidate.padding!r}, "
            "so the baseline's batches have other lengths than those that this job saw"
        )
    found = _by_step(compiled)
    ours, theirs = candidate.precision, baseline.precision
    if ours is not None and theirs is not None and ours != theirs:
        _require_autocast(compiled, found, ours, theirs)
        found = [[(one, _in(theirs, call, ours)) for one, call in step] for step in found]
    old, new = candidate.batch_size, baseline.batch_size
    if old is None or new is None or old == new:
        old = new = 1
    else:
        found = [[(one, _with_batch(call, old, new)) for one, call in step] for step in found]
    return [[Replayed(one.eager, call, old, new) for one, call in step] for step in found]


def _by_step(compiled: Sequence[Compiled]) -> _Calls:
    """The calls of each captured step, function by function. Where a step made more than were
    kept, as one that accumulates gradients does, those stand for the others."""
    found: _Calls = []
    for number in sorted({call.step for each in compiled for call in each.calls}):
        found.append([])
        for each in compiled:
            kept = [call for call in each.calls if call.step == number]
            wanted = max(each.calls_a_step, len(kept)) if kept else 0
            found[-1] += [(each, kept[turn % len(kept)]) for turn in range(wanted)]
    return found


def _with_rows(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """Its first rows; from the beginning again where it has fewer."""
    times = -(-rows // tensor.shape[0])
    tiled = torch.cat([tensor] * times) if times > 1 else tensor
    return tiled[:rows].clone()


def _with_batch(call: Call, old: int, new: int) -> Call:
    """The call with batches of another size: every tensor with `old` rows is cut to `new`, or
    repeated."""
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

    return dataclasses.replace(
        call,
        arguments=with_tensors(call.arguments, resized),
        named=with_tensors(call.named, resized),
    )


def _require_autocast(compiled: Sequence[Compiled], steps: _Calls, ours: str, theirs: str) -> None:
    """Raises ObstacleError unless autocast is all that makes this job's precision."""
    found = f"the baseline trains in {theirs} and this job in {ours}"
    if not any(call.autocast.precision == ours for step in steps for _, call in step):
        raise ObstacleError(f"{found}, not by autocast, so one cannot be made of the other")
    for one in compiled:
        for each in one.module.parameters():
            if each.is_floating_point() and each.dtype is not torch.float32:
                raise ObstacleError(
                    f"{found}, and the model has parameters in {str(each.dtype)[6:]}, so autocast "
                    "cannot make one of the other"
                )


def _in(theirs: str, call: Call, ours: str) -> Call:
    """The call under the baseline's autocast; a part that the script takes out of its own autocast
    stays out."""
    if call.autocast.precision != ours:
        return call
    kind, dtype = call.autocast.device_type, AUTOCAST.get(theirs, call.autocast.dtype)
    return dataclasses.replace(call, autocast=Autocast(kind, theirs in AUTOCAST, dtype))
