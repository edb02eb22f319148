"""The block that a model repeats, compiled once and swapped in for each step.

Sixteen equal layers share one graph instead of being sixteen parts of one: compiling takes a
fraction of the time, but nothing is fused across layers.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, List

import torch

from compilegate.job.errors import CompilerError

Forward = Callable[..., Any]


def repeated_blocks(model: Any) -> List[Any]:
    """The blocks of the model's largest list of modules of one class, in order.

    Raises CompilerError when it has no such list.
    """
    lists = [
        list(each)
        for each in model.modules()
        if isinstance(each, (torch.nn.ModuleList, torch.nn.Sequential))
        and len({type(block) for block in each}) == 1
    ]
    if not lists:
        raise CompilerError(
            f"regional compilation needs a model that repeats a block, and {type(model).__name__} "
            "has no list of modules of one class; set regional = false"
        )
    return max(lists, key=_parameters)


class CompiledRegions:
    """A function in which the repeated blocks of a model are compiled.

    Outside of a call the model is as it was: evaluation and the parity probe call it too.
    """

    def __init__(
        self, function: Forward, model: Any, compile_block: Callable[[Forward], Forward]
    ) -> None:
        """`compile_block` is given each block's own forward pass."""
        self._function = function
        self._blocks = repeated_blocks(model)
        self._compiled = [compile_block(block.forward) for block in self._blocks]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        with self._lent():
            return self._function(*arguments, **named)

    @contextlib.contextmanager
    def _lent(self) -> Iterator[None]:
        # What a library has put in a block's place already, such as a hook, is what was compiled.
        before = {
            block: vars(block)["forward"] for block in self._blocks if "forward" in vars(block)
        }
        for block, compiled in zip(self._blocks, self._compiled):
            block.forward = compiled  # of this object: it hides the method of its class
        try:
            yield
        finally:
            for block in self._blocks:  # twice the same one, where layers are shared
                vars(block).pop("forward", None)
            for block, own in before.items():
                block.forward = own


def _parameters(blocks: List[Any]) -> int:
    return sum(each.numel() for block in blocks for each in block.parameters())
