"""Run a function in float64, eager and compiled, forward and backward, and compare.

Scripts that show what is compiled wrongly are made of this file: it needs nothing but torch and
numpy.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Sequence

import numpy as np
import torch

Tensors = Dict[str, torch.Tensor]
AFTERWARDS = " afterwards"
"""Behind the name of an input that the function writes into."""


class Row(NamedTuple):
    """One tensor, computed three times."""

    exact: float
    eager: float
    compiled: float
    """Its norm in each of them."""
    eager_error: float
    compiled_error: float
    """How far from float64, as a share of the norm in float64."""


SMALLEST_SHARE = 1e-3
"""A gradient's error is relative to this share at least of the norm of all gradients."""


class Arguments(NamedTuple):
    """What a function is run with."""

    inputs: Dict[str, Any]
    """Its arguments by name, in order."""
    outputs: Sequence[str]
    """The names of its results."""
    cotangents: Tensors
    """What the backward pass starts from, by the name of a result."""
    device: str
    autocast: Optional[str]
    """The precision that surrounds it, such as bfloat16; None without autocast."""


def compiled_by(function: Callable[..., Any], how: Dict[str, Any]) -> Callable[..., Any]:
    """The function as torch.compile makes it; `how` is backend, mode, options, dynamic, ..."""
    told = {} if how["mode"] == "default" else {"mode": how["mode"]}
    if how["backend"] == "inductor":
        inductor = importlib.import_module("torch._inductor")
        config: Any = importlib.import_module("torch._inductor.config")
        config.fallback_random = how["fallback_random"]
        options = {**inductor.list_mode_options(how["mode"], how["dynamic"]), **how["options"]}
        return torch.compile(function, dynamic=how["dynamic"], options=options or None)
    if how["options"]:
        told["options"] = how["options"]
    module, _, name = how["backend"].rpartition(".")
    if module:
        backend = getattr(importlib.import_module(module), name)
    else:
        backend = importlib.import_module("torch._dynamo.backends.registry").lookup_backend(name)
    if told:
        backend = functools.partial(backend, **told)
    return torch.compile(function, backend=backend, dynamic=how["dynamic"])


def variants(
    function: Callable[..., Any], compiled: Callable[..., Any], arguments: Arguments
) -> Dict[str, Tensors]:
    """Outputs and gradients by name, for each of float64, eager and compiled."""
    exact = _run(function, arguments, exactly=True)
    changed = [name[: -len(AFTERWARDS)] for name in exact if name.endswith(AFTERWARDS)]
    return {
        "float64": exact,
        "eager": _run(function, arguments, changed),
        "compiled": _run(compiled, arguments, changed),
    }


def compared(found: Dict[str, Tensors]) -> Dict[str, Row]:
    """What `variants` found, tensor by tensor."""
    exact = found["float64"]
    norms = {name: float(each.norm()) for name, each in exact.items()}
    gradients = [norm for name, norm in norms.items() if name.startswith("gradient of ")]
    smallest = SMALLEST_SHARE * float(np.linalg.norm(gradients))
    rows = {}
    for name, norm in norms.items():
        scale = max(norm, smallest if name.startswith("gradient of ") else 0.0)
        both = [found["eager"], found["compiled"]]
        sizes = [float(each[name].norm()) if name in each else 0.0 for each in both]
        rows[name] = Row(norm, *sizes, *(_error(each, exact, name, scale) for each in both))
    return rows


def _error(found: Tensors, exact: Tensors, name: str, scale: float) -> float:
    if name not in found or found[name].shape != exact[name].shape:
        return float("inf")
    distance = float((_exact(found[name]) - exact[name]).norm())
    if distance == 0:
        return 0.0
    return distance / scale if scale else float("inf")


def _run(
    function: Callable[..., Any],
    arguments: Arguments,
    changed: Sequence[str] = (),
    *,
    exactly: bool = False,
) -> Tensors:
    convert = _exact if exactly else torch.clone
    values = {name: _copy(each, convert) for name, each in arguments.inputs.items()}
    buffers = {n: each for n, each in values.items() if _floats(each) and not each.requires_grad}
    before = {name: each.clone() for name, each in buffers.items()}
    _seed()
    with contextlib.ExitStack() as stack:
        if arguments.device in ("cpu", "cuda"):
            low = None if exactly else arguments.autocast
            dtype = getattr(torch, low) if low else None
            stack.enter_context(torch.autocast(arguments.device, dtype=dtype, enabled=bool(low)))
        if exactly:
            stack.enter_context(_in_float64())
        results = dict(zip(arguments.outputs, function(*values.values())))
        results = {name: each for name, each in results.items() if _floats(each)}
        found = {name: each.detach() for name, each in results.items()}
        for name, each in buffers.items():
            if name in changed or (exactly and not torch.equal(each, before[name])):
                found[name + AFTERWARDS] = each.detach().clone()
        starts = [
            (each, arguments.cotangents[name].to(each.dtype))
            for name, each in results.items()
            if each.requires_grad and name in arguments.cotangents
        ]
        wanted = {name: each for name, each in values.items() if _floats(each)}
        wanted = {name: each for name, each in wanted.items() if each.requires_grad}
        gradients: Sequence[Optional[torch.Tensor]] = [None] * len(wanted)
        if starts and wanted:
            gradients = torch.autograd.grad(
                [each for each, _ in starts],
                list(wanted.values()),
                [each for _, each in starts],
                allow_unused=True,
            )
        if arguments.cotangents:
            for (name, each), gradient in zip(wanted.items(), gradients):
                zero = torch.zeros_like(each) if gradient is None else gradient
                found["gradient of " + name] = zero.detach().to_dense()
    return found


def _seed() -> None:
    """torch.manual_seed would seed GPUs that are not in use as well, once they are."""
    torch.default_generator.manual_seed(0)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(0)


def _floats(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.detach().to(torch.complex128)
    return tensor.detach().double() if tensor.is_floating_point() else tensor.clone()


def _copy(value: Any, convert: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copy = convert(value.detach())
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(copy, requires_grad=value.requires_grad)
    return copy.requires_grad_() if value.requires_grad else copy


@contextlib.contextmanager
def _in_float64() -> Iterator[None]:
    """Have code that names a lower precision compute in float64 all the same."""
    low = {torch.float32, torch.float16, torch.bfloat16}
    casts = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}

    def raised(value: Any) -> Any:
        return torch.float64 if isinstance(value, torch.dtype) and value in low else value

    class Exactly(torch.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func in casts:
                return args[0].double()
            named = {name: raised(each) for name, each in (kwargs or {}).items()}
            return func(*(raised(each) for each in args), **named)

    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Exactly():
            yield
    finally:
        torch.set_default_dtype(usual)


def saved(file: str, device: str, layouts: Dict[str, Any]) -> Dict[str, Any]:
    """Tensors from a file of numpy's. `layouts` has for each its precision, strides, whether it
    is a parameter, and whether it wants a gradient."""
    values: Dict[str, Any] = {}
    with np.load(file) as stored:
        for name, (dtype, shape, strides, parameter, gradient) in layouts.items():
            flat = torch.from_numpy(stored[name]).view(getattr(torch, dtype)).reshape(shape)
            value = torch.empty_strided(shape, strides, dtype=flat.dtype, device=device)
            value.copy_(flat)
            if parameter:
                value = torch.nn.Parameter(value, requires_grad=gradient)
            values[name] = value.requires_grad_() if gradient else value
    return values


def show(
    rows: Dict[str, Row], labels: Dict[str, str], limit: float, epsilon: float
) -> Dict[str, Row]:
    """Print norms and errors side by side; those that are compiled wrongly are marked and
    returned: they err `limit` times as much as eager's rounding explains."""
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}")
    titles = ("float64", "eager", "compiled", "error of eager", "of compiled")
    print(" ".join(f"{title:>14}" for title in titles))
    wrong = {}
    for name, row in rows.items():
        title = " ".join(labels.get(word, word) for word in name.split(" "))
        mark = ""
        if not row.compiled_error <= limit * max(row.eager_error, epsilon):
            wrong[name], mark = row, "  <- wrong"
        norms = " ".join(f"{each:14.7g}" for each in row[:3])
        print(f"{norms} {row.eager_error:14.2g} {row.compiled_error:14.2g}  {title}{mark}")
    return wrong


def beside(script: str, name: str) -> str:
    """The path of a file in the script's folder."""
    return os.path.join(os.path.dirname(os.path.abspath(script)), name)
