"""Where a program asks for the value of a tensor, and so waits until it is computed.

On a device that computes behind the program, the program no longer runs ahead: the device
idles until the next operation is launched. In a compiled function the graph breaks there.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import Counter
from typing import Any, Callable, Dict, List, Optional, Tuple

ASKING = ("item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__", "nonzero")
"""Methods of a tensor after which the program knows its value, or its shape."""
_ONLY_FROM_A_DEVICE = frozenset({"numpy", "cpu"})
_OWN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_TORCH = os.sep + "torch" + os.sep
_OPTIMIZERS = os.path.join(_TORCH.rstrip(os.sep), "optim") + os.sep
"""Part of the path of its optimizers, which ask for the number of their step on the host."""


class SynchronisationWatch:
    """While it watches, counts such calls by line. It puts wrappers around torch's methods, and
    takes them off again."""

    def __init__(self) -> None:
        self._originals: Dict[str, Any] = {}
        self.counts: Counter[str] = Counter()
        """By line."""
        self._inside = False

    def start(self) -> None:
        """Watch from here on."""
        import torch  # noqa: PLC0415 - programs without torch import this, too

        for name in ASKING:
            original = getattr(torch.Tensor, name)
            self._originals[name] = vars(torch.Tensor).get(name)
            setattr(torch.Tensor, name, self._watched(name, original, torch))

    def stop(self) -> None:
        """Stop it."""
        import torch  # noqa: PLC0415 - as above

        for name, original in self._originals.items():
            if original is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, original)
        self._originals = {}

    def _watched(self, name: str, original: Callable[..., Any], torch: Any) -> Callable[..., Any]:
        compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)
        needs_device = name in _ONLY_FROM_A_DEVICE

        @functools.wraps(original)
        def asked(tensor: Any, *arguments: Any, **named: Any) -> Any:
            if compiling() or self._inside or (needs_device and tensor.device.type == "cpu"):
                return original(tensor, *arguments, **named)
            self._inside = True
            try:
                return original(tensor, *arguments, **named)
            finally:
                self._inside = False
                where = line_of(sys._getframe(1))
                if where is not None:
                    self.counts[where] += 1

        dynamo = sys.modules.get("torch._dynamo")
        # Where a graph has broken, dynamo would take the wrapper for the program's and break in it.
        return asked if dynamo is None else dynamo.disable(asked)


def line_of(frame: Any) -> Optional[str]:
    """The nearest line of the program itself; None where the job or an optimizer asks."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_OWN) or _OPTIMIZERS in file:
            return None
        if _TORCH not in file and not file.startswith("<"):
            return f"{short_path(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def short_path(path: str) -> str:
    """As a reader knows it: within the working folder, or in a library."""
    parts = path.replace(os.sep, "/").split("/site-packages/")
    if len(parts) > 1:
        return parts[-1]
    try:
        inside = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return path if inside.startswith("..") else inside.replace(os.sep, "/")


def by_line(watch: SynchronisationWatch) -> List[Tuple[str, int]]:
    """How often each line asked, most often first."""
    return watch.counts.most_common()
