"""The truth, without any code of `compilegate`: eager, compiled and float64, compared by NumPy.

Rounding is measured, not assumed: it is the error of eager against float64, by its own kernels and
by others (without oneDNN, and with attention written out). Compiled code with about the same error
is sound; with a much larger error in most of the batches it is wrong. In between a person has to
look.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from benchmarks.zoo.architecture import Architecture, Batch

Numbers = dict[str, npt.NDArray[Any]]
BATCHES, SEED = 4, 11
SOUND, WRONG, UNCLEAR = "sound", "wrong", "unclear"
REFUSED, LEFT = "torch refuses", "left to eager mode"
ROUNDING = {"fp32": 2.0**-22, "bf16": 2.0**-8}
"""The least: sums in another order differ by as much."""
AS_ROUNDING, MORE_THAN_ROUNDING = 10.0, 20.0
SMALLEST_SHARE = 1e-3
"""A gradient is no smaller, for this, than a thousandth of all gradients together."""


class Truth(NamedTuple):
    """NumPy's finding."""

    answer: str
    tensor: str = ""
    """The tensor with the largest error as a multiple of rounding, which decides."""
    error: float = 0.0
    """Its distance from float64 as a share of its size, in the median batch."""
    rounding: float = 0.0
    """Eager's largest distance."""
    why: str = ""


def judge(
    reference: Sequence[Numbers],
    eager: Sequence[Sequence[Numbers]],
    compiled: Sequence[Numbers],
    precision: str,
) -> Truth:
    """Compare the compiled batches' errors with those of the kinds of `eager`."""
    worst, most = Truth(SOUND), 0.0
    for name in {name: None for each in reference for name in each}:
        rounding = max(
            ROUNDING[precision], *(max(_errors(name, each, reference)) for each in eager)
        )
        errors = _errors(name, compiled, reference)
        error = sorted(errors)[(len(errors) - 1) // 2]
        if not np.isfinite(rounding):
            continue
        lost = not any(each[name].any() for each in compiled if name in each)
        ratio = np.inf if lost and error > SMALLEST_SHARE else error / rounding
        if ratio > most:
            most = ratio
            answer = WRONG if ratio > MORE_THAN_ROUNDING else UNCLEAR
            answer = SOUND if ratio <= AS_ROUNDING else answer
            worst = Truth(answer, name, error, rounding)
    return worst


def _errors(name: str, found: Sequence[Numbers], exact: Sequence[Numbers]) -> list[float]:
    """The distance in each batch with this tensor, as a share of the exact tensor's size."""
    both = zip(found, exact, strict=True)
    return [_error(name, row, wanted) for row, wanted in both if name in wanted]


def _error(name: str, found: Numbers, exact: Numbers) -> float:
    wanted = exact[name]
    if name not in found or found[name].shape != wanted.shape or np.isnan(found[name]).any():
        return float("inf")
    size = float(np.linalg.norm(wanted))
    if name.startswith("gradient"):
        gradients = [np.linalg.norm(each) for key, each in exact.items() if key.startswith("grad")]
        size = max(size, SMALLEST_SHARE * float(np.linalg.norm(gradients)))
    distance = float(np.linalg.norm(found[name] - wanted))
    return distance / size if distance else 0.0


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


_DRAWING = {"rand", "randn", "rand_like", "randn_like", "normal", "normal_", "uniform_"}


class _DrawsFloat32(TorchDispatchMode):
    """Has float64 draw the random numbers that float32 draws. Dropout's are the same anyway."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs, name = dict(kwargs or {}), function.overloadpacket.__name__
        if name not in _DRAWING:
            return function(*args, **kwargs)
        if "dtype" in kwargs or name in {"rand", "randn"}:
            kwargs["dtype"] = torch.float32
        drawn = function(*tree_map(_float, args), **kwargs).double()
        return args[0].copy_(drawn) if name.endswith("_") else drawn


def _float(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) else value


@contextlib.contextmanager
def _in_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        with _DrawsFloat32():
            yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def _other_kernels() -> Iterator[None]:
    written_out = torch.nn.attention.SDPBackend.MATH
    with torch.backends.mkldnn.flags(enabled=False), torch.nn.attention.sdpa_kernel(written_out):
        yield


def seed(number: int) -> None:
    """Seed all generators that a model may draw from."""
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def batches(architecture: Architecture, count: int) -> list[Batch]:
    """Batches that are the same every time."""
    made = []
    for number in range(count):
        seed(1000 + number)
        made.append(architecture.batch())
    return made


def autocast(precision: str) -> torch.autocast:
    """The autocast of half of the zoo."""
    return torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16")


def step(
    architecture: Architecture,
    models: Sequence[nn.Module],
    optimizers: Sequence[torch.optim.Optimizer],
    batch: Batch,
    precision: str,
) -> None:
    """Take one training step of each model in turn."""
    for loss, optimizer in zip(architecture.losses, optimizers, strict=True):
        optimizer.zero_grad()
        with autocast(precision):
            value = loss(*models, batch)
        value.backward()
        optimizer.step()


class TrainedArchitecture:
    """An architecture after some eager steps, and what its variants compute from there."""

    def __init__(self, architecture: Architecture, precision: str) -> None:
        self._architecture, self._precision = architecture, precision
        self._batches = batches(architecture, BATCHES)
        models = self._new()
        optimizers = [torch.optim.AdamW(each.parameters(), lr=1e-3) for each in models]
        for batch in self._batches:
            step(architecture, models, optimizers, batch, precision)
        self._states = [
            {name: each.detach().clone() for name, each in model.state_dict().items()}
            for model in models
        ]
        self._eager = [self._run(models)]
        for around in (_other_kernels, _in_float64):
            try:
                with around():
                    self._eager.append(self._run(models))
            except Exception as error:  # noqa: BLE001 - a model that names float32, a missing kernel
                print(f"{around.__name__}: {type(error).__name__}: {error}", flush=True)
                self._eager.append([])
        exact = self._eager.pop()
        self.reference = "float64" if exact else "eager by other kernels"
        self._eager = [each for each in self._eager if each]
        self._exact = exact or self._eager.pop()

    def large_gradients(self) -> list[str]:
        """The shapes of parameters that have at least a hundredth of all gradients."""
        first = self._exact[0]
        sizes = {
            name: float(np.linalg.norm(each))
            for name, each in first.items()
            if name.startswith("gradient") and each.size > 1 and np.ptp(each) > 0
        }
        least = 1e-2 * float(np.linalg.norm(list(sizes.values())))
        shapes = ["x".join(map(str, first[name].shape)) for name in sizes if sizes[name] > least]
        return list(dict.fromkeys(shapes))

    def judge(self, backend: Callable[..., Any]) -> Truth:
        """The truth about a compiler."""
        torch.compiler.reset()
        models = self._new()
        for each in models:
            each.forward = torch.compile(each.forward, backend=backend)  # type: ignore[method-assign]
        try:
            compiled = self._run(models)
        except Exception as error:  # noqa: BLE001 - whatever torch cannot compile
            lines = str(error).strip().splitlines() or [""]
            return Truth(REFUSED, why=f"{type(error).__name__}: {lines[0][:200]}")
        return judge(self._exact, self._eager or [self._exact], compiled, self._precision)

    def _new(self) -> tuple[nn.Module, ...]:
        seed(SEED)
        return self._architecture.models()

    def _run(self, models: Sequence[nn.Module]) -> list[Numbers]:
        """Loss, outputs, gradients and buffers of each batch, each from the same state."""
        found, given, precision = [], self._batches, self._precision
        if torch.get_default_dtype() is torch.float64:
            given, precision = [tree_map(_double, each) for each in given], "fp32"
            for each in models:
                each.double()
        for number, batch in enumerate(given):
            for model, state in zip(models, self._states, strict=True):
                model.load_state_dict(state)
            seed(2000 + number)
            found.append(self._numbers(models, batch, precision))
        return found

    def _numbers(self, models: Sequence[nn.Module], batch: Batch, precision: str) -> Numbers:
        found: Numbers = {}
        with contextlib.ExitStack() as hooks:
            for place, model in enumerate(models):
                hook = model.register_forward_hook(_output_hook(found, f"output of {place}"))
                hooks.callback(hook.remove)
            for place, loss in enumerate(self._architecture.losses):
                for model in models:
                    model.zero_grad()
                with autocast(precision):
                    value = loss(*models, batch)
                value.backward()
                found[f"loss {place}"] = _array(value)
                for name, each in models[place].named_parameters():
                    if each.grad is not None:
                        found[f"gradient of {place}.{name}"] = _array(each.grad)
        for place, model in enumerate(models):
            for name, each in model.named_buffers():
                found[f"buffer {place}.{name}"] = _array(each)
        return found


def _output_hook(found: Numbers, title: str) -> Callable[..., None]:
    def keep(module: nn.Module, arguments: Any, output: Any) -> None:
        for place, each in enumerate(tree_leaves(output)):
            if isinstance(each, Tensor):
                found[f"{title}, {place}"] = _array(each)

    return keep


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    kind = torch.complex128 if tensor.is_complex() else torch.float64
    result: npt.NDArray[Any] = tensor.detach().to(kind).numpy().copy()
    return result
