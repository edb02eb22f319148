"""Slices of a larger tensor as arguments of a function that is compiled for dynamic shapes.

Its guards ask for the shape of the tensor that an argument is a slice of. The same values in a
tensor of their own, as a loader or a probe makes them, would then be compiled anew.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

import torch
from torch.utils._pytree import tree_map

Forward = Callable[..., Any]


def without_bases(function: Forward) -> Forward:
    """The function, called with slices as tensors of their own in the same memory. What is one
    tensor among the arguments stays one; those that gradients flow to stay as they are."""

    def called(*arguments: Any, **named: Any) -> Any:
        own: Dict[int, torch.Tensor] = {}

        def alone(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.requires_grad or value._base is None:
                return value
            if id(value) not in own:
                own[id(value)] = value.detach()
            return own[id(value)]

        arguments, named = tree_map(alone, (arguments, named))
        return function(*arguments, **named)

    return called
