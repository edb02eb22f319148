"""The arithmetic of a training step: random numbers, float32 or 16 bits by autocast."""

from __future__ import annotations

import contextlib
import functools
import pickle
import random
import re
from typing import Any, Callable, ContextManager, Iterable, Iterator

import numpy as np
import torch

from compilegate.job.errors import ArmError


class Generators:
    """The states of the generators of Python, NumPy and torch, on its CPU and used GPUs."""

    def __init__(self) -> None:
        self._python, self._numpy = random.getstate(), np.random.get_state()
        self._host = torch.get_rng_state()
        self._gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def restore(self) -> None:
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        torch.set_rng_state(self._host)
        if self._gpus:
            torch.cuda.set_rng_state_all(self._gpus)

    def have_moved(self) -> bool:
        """Whether torch's random numbers were drawn since."""
        now = Generators()
        return not all(map(torch.equal, (self._host, *self._gpus), (now._host, *now._gpus)))

    @property
    def others(self) -> bytes:
        """The states of Python's and NumPy's, to be compared."""
        return pickle.dumps((self._python, self._numpy))


def restoring(generator: Any) -> Callable[[], Any] | None:
    """What resets a generator of a script's own to its state now; None for anything else."""
    own: Any = generator
    if isinstance(generator, random.Random):
        return functools.partial(own.setstate, own.getstate())
    if isinstance(generator, (torch.Generator, np.random.RandomState)):
        return functools.partial(own.set_state, own.get_state())
    if isinstance(generator, np.random.Generator):
        return functools.partial(setattr, own.bit_generator, "state", own.bit_generator.state)
    return None


@contextlib.contextmanager
def preserved_generators() -> Iterator[None]:
    """Leave the generators as they were, also after an exception."""
    before = Generators()
    try:
        yield
    finally:
        before.restore()


AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}  # by the words of a workload
_NAMES = {dtype: name for name, dtype in AUTOCAST.items()}


def autocast(precision: str, device: torch.device) -> ContextManager[Any]:
    """The context of a step's forward pass; another precision than fp16 and bf16 is the model's
    own."""
    if precision not in AUTOCAST:
        return contextlib.nullcontext()
    if device.type == "xla":
        context: ContextManager[Any] = xla_operations().autocast(AUTOCAST[precision])
        return context
    return torch.autocast(device.type, dtype=AUTOCAST[precision])


def autocast_now(kind: str) -> tuple[bool, torch.dtype]:
    """Whether autocast is on for that kind of device (cuda, cpu), and its type."""
    if hasattr(torch, "get_autocast_dtype"):  # since torch 2.4
        return torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    if kind == "cpu":
        return torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()
    return torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()  # torch_xla 1 takes GPUs'


def name_of(dtype: torch.dtype) -> str:
    """fp32, bf16 or fp16; fp32 for any other type."""
    return _NAMES.get(dtype, "fp32")


def own_precision(module: torch.nn.Module) -> str:
    """fp32, bf16 or fp16: the type of the module's parameters, by the first."""
    first = next(module.parameters(), None)
    return "fp32" if first is None else name_of(first.dtype)


def precision_now(module: torch.nn.Module) -> str:
    """fp32, bf16 or fp16: what the module computes in now, by its parameters or by autocast."""
    first = next(module.parameters(), None)
    if first is None or name_of(first.dtype) != "fp32":
        return own_precision(module)
    enabled, dtype = autocast_now(first.device.type)
    return name_of(dtype) if enabled else "fp32"


def observed_precision(
    module: torch.nn.Module, outputs: Iterable[torch.Tensor]
) -> tuple[str | None, bool]:
    """What a call that returned these tensors computed in, None where unknown; and whether autocast
    made it so."""
    around = precision_now(module)
    if around != "fp32":
        return around, own_precision(module) == "fp32"
    return products_precision(outputs), False


_PRODUCT = re.compile(r"[Mm]mBackward|^LinearBackward|ConvolutionBackward|Rnn(Layer)?Backward")
"""In autograd's names for matrix products and convolutions."""


def products_precision(outputs: Iterable[torch.Tensor]) -> str | None:
    """fp32, bf16 or fp16: what the products behind these tensors were computed in, by autograd's
    graph. None where there are none, they differ, or a node hides them, as compiled code does."""
    seen: set[Any] = {None}
    found: set[str] = set()
    waiting: list[Any] = [each.grad_fn for each in outputs]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction) or "::jit::" in node.name():
            return None
        if _PRODUCT.search(node.name()):
            kinds = [each.dtype for each in getattr(node, "_input_metadata", ())]  # torch 2.1 on
            if not kinds:
                return None
            found.add(name_of(kinds[0]))
        waiting += [each for each, _ in node.next_functions]
    return found.pop() if len(found) == 1 else None


def check_precision(precision: str, accelerator: str) -> None:
    """Raises ArmError where the kind of device (cuda, cpu) does not train in it."""
    if precision == "fp16" and accelerator != "cuda":
        raise ArmError(
            f"precision fp16 needs a GPU, and this job has a {accelerator}; take bf16, or fp32"
        )


def xla_operations() -> Any:
    """Our functions on torch_xla, which few environments have."""
    from compilegate.job.compilers import xla_runtime  # noqa: PLC0415

    return xla_runtime
