"""Has torch capture the calls of an eager program's models, without compiling what it captures."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, Iterator, Optional, Sequence

import torch


def capture_calls(roots: Sequence[Any]) -> Optional[str]:
    """From here on, calls of these modules are captured first. Returns why they cannot be; None
    where they can."""
    if not hasattr(torch, "compile"):
        return f"torch {torch.__version__} captures no graphs; that came with torch 2.0"
    if not roots:
        return "no module was seen whose weights the optimizer changes"
    for each in roots:
        # What DistributedDataParallel does around its module no compiler takes on.
        distributed = type(each).__name__ == "DistributedDataParallel"
        root = each.module if distributed else each
        dispatch = _dispatch_of(root)
        if dispatch is None:
            root.forward = _captured(root.forward)
        else:
            dispatch.part.compiled = _captured(dispatch.part.compiled)
    return None


def _captured(function: Any) -> Any:
    captured: Any = torch.compile(function, backend="eager")

    def call(*arguments: Any, **named: Any) -> Any:
        with _unlimited():
            return captured(*arguments, **named)

    return call


@contextlib.contextmanager
def _unlimited() -> Iterator[None]:
    """Each shape is to be told of: dynamo would leave a function to eager after eight graphs."""
    from torch._dynamo import config  # noqa: PLC0415 - seconds of import

    names = [name for name in ("recompile_limit", "cache_size_limit") if hasattr(config, name)]
    before = {name: getattr(config, name) for name in names}
    for name in names:
        setattr(config, name, 64)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


def _dispatch_of(root: Any) -> Any:
    """What a job put in place of the module's forward pass; None in a script without a job."""
    found = inspect.unwrap(root.forward, stop=lambda each: hasattr(each, "part"))
    return found if hasattr(found, "part") else None
