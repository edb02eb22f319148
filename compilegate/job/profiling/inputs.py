"""What a model is called with: the shapes of each step, and how long its examples really are."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

from compilegate.job.profiling.record import Lengths, Shapes

MOST_EXAMPLES = 20_000
MOST_NAMED_SHAPES = 64


class Inputs:
    """The calls of the models, step by step."""

    def __init__(self) -> None:
        self._by_step: List[int] = []
        self._numbers: Dict[str, int] = {}
        self._called_with: List[str] = []
        self._real: List[int] = []
        self._padded: List[int] = []
        self._batch: List[int] = []
        self._calls = 0
        self._by: Optional[str] = None
        self.batch_size: Optional[int] = None

    def see(self, arguments: Any, named: Any) -> None:
        """A model is called with this."""
        tensors = list(tensors_in((arguments, named)))
        self._called_with.append(
            ", ".join(f"{name or 'input'} {list(each.shape)}" for name, each in tensors)
        )
        if self.batch_size is None:
            self.batch_size = next((int(each.shape[0]) for _, each in tensors if each.dim()), None)
        found = _lengths(tensors)
        self._calls += 1
        if found is None or len(self._real) >= MOST_EXAMPLES:
            return
        by, real, padded = found
        self._by = by
        self._real += real
        self._padded += [padded] * len(real)
        self._batch += [self._calls] * len(real)

    def end_step(self) -> None:
        """What was seen since the last one is of this step. Nothing is seen before the first
        update, which shows what the models are."""
        if not self._called_with:
            return
        shape = "; ".join(sorted(set(self._called_with)))
        self._called_with = []
        self._by_step.append(self._numbers.setdefault(shape, len(self._numbers)))

    def shapes(self) -> Shapes:
        """Those of the steps so far."""
        return Shapes(tuple(self._by_step), tuple(self._numbers)[:MOST_NAMED_SHAPES])

    def lengths(self) -> Optional[Lengths]:
        """None where inputs have no lengths."""
        if self._by is None:
            return None
        return Lengths(self._by, tuple(self._real), tuple(self._padded), tuple(self._batch))


def tensors_in(value: Any, name: str = "") -> Iterator[Tuple[str, torch.Tensor]]:
    """The tensors of nested arguments, with the name that each was given by."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each, name)
    elif hasattr(value, "items") and callable(value.items):
        for key, each in value.items():
            yield from tensors_in(each, str(key))


def _lengths(tensors: List[Tuple[str, torch.Tensor]]) -> Optional[Tuple[str, List[int], int]]:
    """By what, the real lengths of a batch's rows, and what they were filled up to."""
    for name, each in tensors:
        if "mask" in name and each.dim() == 2 and not each.requires_grad:
            return "mask", _longest_ones(each), int(each.shape[1])
    for _, each in tensors:
        if each.dim() == 2 and each.dtype in (torch.int64, torch.int32) and each.shape[1] > 1:
            return _filled(each)
    for _, each in tensors:
        if each.dim() == 3 and each.is_floating_point():
            return "shape", [int(each.shape[1])] * int(each.shape[0]), int(each.shape[1])
    return None


def _longest_ones(mask: torch.Tensor) -> List[int]:
    lengths: List[int] = (mask.detach() != 0).sum(1).tolist()
    return lengths


def _filled(tokens: torch.Tensor) -> Tuple[str, List[int], int]:
    """Rows that end in one repeated number were filled up with it. One number alone at the end of
    the rows may be the mark of their end, so it counts as a token."""
    rows = tokens.detach()
    width = int(rows.shape[1])
    fill = rows[:, -1].mode().values
    others = (rows != fill).to(torch.int64)
    # The place after the last number that is no filling.
    ends = (others * torch.arange(1, width + 1, device=rows.device)).max(1).values
    if bool((ends >= width - 1).all()):
        return "shape", [width] * int(rows.shape[0]), width
    return "filling", ends.clamp(min=1).tolist(), width
