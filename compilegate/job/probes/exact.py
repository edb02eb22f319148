"""The reference of the parity probe: a module computed in float64, without a copy of its code.

For the time of a call the module's own tensors are exchanged for float64 ones. So it works for any
function that uses the module, for tied weights, and for tensors that are no parameters, and nothing
but tensors has to be copied.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

import torch

from compilegate.job.errors import CompilegateError
from compilegate.job.probes.capture import with_tensors

_TWICE = {torch.complex32: torch.complex128, torch.complex64: torch.complex128}
_LOW = (torch.float32, torch.float16, torch.bfloat16)


class NoRoomError(CompilegateError):
    """The reference does not fit the memory that is free; the message has the figures."""


def in_float64(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in float64, or complex128; a copy of another one, such as integers."""
    if tensor.is_floating_point():
        return tensor.detach().to(torch.float64, copy=True)
    if tensor.is_complex():
        return tensor.detach().to(torch.complex128, copy=True)
    return tensor.detach().clone()


class ExactTensors:
    """A module's tensors in float64 on a device, to be lent to it."""

    def __init__(self, module: torch.nn.Module, device: torch.device) -> None:
        self._module = module
        self._device = device
        self._made: Dict[int, Tuple[torch.Tensor, torch.Tensor]] = {}
        for each in module.parameters():
            self._made[id(each)] = each, self._exact(each)

    def parameter(self, own: torch.Tensor) -> torch.Tensor:
        """The exact one for a parameter of the module."""
        return self._made[id(own)][1]

    def written(self) -> bool:
        """Whether a call has written into a parameter."""
        return any(exact._version > 0 for _, exact in self._made.values())

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Exchange the module's tensors. Buffers start from their own values each time.

        Whoever enters puts back attributes that the call sets itself; see `state.Snapshot`.
        """
        made = dict(self._made)

        def exchange(tensor: torch.Tensor) -> torch.Tensor:
            if id(tensor) not in made:
                made[id(tensor)] = tensor, self._exact(tensor)
            return made[id(tensor)][1]

        changed: List[Tuple[Dict[str, Any], Dict[str, Any]]] = []
        try:
            for module in self._module.modules():
                # Not by setattr: that tells dynamo that the module has changed.
                for table in (module._parameters, module._buffers, vars(module)):
                    new = {
                        name: with_tensors(each, exchange)
                        for name, each in table.items()
                        if isinstance(each, (torch.Tensor, list, tuple, dict))
                        and name not in _TABLES
                    }
                    new = {name: each for name, each in new.items() if each is not table[name]}
                    changed.append((table, {name: table[name] for name in new}))
                    table.update(new)
            yield
        finally:
            for table, old in changed:
                table.update(old)

    def _exact(self, tensor: torch.Tensor) -> torch.Tensor:
        exact = in_float64(tensor).to(self._device)
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(exact, requires_grad=tensor.requires_grad)
        return exact


_TABLES = frozenset(vars(torch.nn.Module()))
"""The attributes in which torch itself keeps parameters, hooks and the like."""


@contextlib.contextmanager
def exactly(
    eager_dtype: torch.dtype, attention_dtype: Optional[torch.dtype] = None
) -> Iterator[None]:
    """Have code that names a precision compute in float64 all the same, without autocast.

    Random numbers are drawn as eager draws them, which is in `eager_dtype` where nothing else is
    said: drawn in float64 they would be others. On a GPU that goes for attention that drops, which
    is one kernel in lower precisions and draws by itself; eager's is in `attention_dtype`, by
    default `eager_dtype`. The rounding of that kernel is then the reference's, too.
    """
    usual = torch.get_default_dtype()
    with contextlib.ExitStack() as stack:
        for kind in ("cpu", "cuda"):
            if kind == "cpu" or torch.cuda.is_available():
                stack.enter_context(torch.autocast(kind, enabled=False))
        mode = getattr(torch.overrides, "TorchFunctionMode", None)
        if mode is not None:  # since torch 1.13
            stack.enter_context(_exact_mode(mode, eager_dtype, attention_dtype or eager_dtype))
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(usual)


def _exact_mode(base: Any, eager_dtype: torch.dtype, attention_dtype: torch.dtype) -> Any:
    tensor = torch.Tensor
    casts = {tensor.float, tensor.half, tensor.bfloat16}
    drawn = {torch.rand, torch.randn, torch.normal, torch.rand_like, torch.randn_like}
    filled = {tensor.normal_, tensor.uniform_, tensor.exponential_, tensor.log_normal_}
    attention = getattr(torch.nn.functional, "scaled_dot_product_attention", None)  # torch 2
    dropouts: Set[Any] = {torch.nn.functional.dropout, torch.dropout}

    class Exactly(base):  # type: ignore[misc, valid-type]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            named = dict(kwargs or {})
            if function in casts:
                return args[0].double()
            if function in drawn:
                return _drawn(function, args, named, eager_dtype)
            if function in filled and args[0].dtype is torch.float64:
                low = torch.empty_like(args[0], dtype=eager_dtype)
                return args[0].copy_(function(low, *args[1:], **named))
            if function is attention and _drops_in_one_kernel(args, named):
                return _attended(args, named, attention_dtype)
            if function in dropouts and args[0].is_cuda:
                return _dropped(args, named, eager_dtype)
            return function(
                *(_exact_type(each) for each in args),
                **{name: _exact_type(each) for name, each in named.items()},
            )

    return Exactly()


def _exact_type(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value in _LOW else _TWICE.get(value, value)
    return value


def _drawn(
    function: Callable[..., Any], args: Tuple[Any, ...], named: Dict[str, Any], low: torch.dtype
) -> torch.Tensor:
    """What eager draws, in float64."""
    named.setdefault("dtype", low)
    if function is torch.normal:  # of tensors it takes no type
        tensors = [each for each in args if isinstance(each, torch.Tensor)]
        if tensors:
            named.pop("dtype")
        args = tuple(each.to(low) if isinstance(each, torch.Tensor) else each for each in args)
    return in_float64(function(*args, **named))


def _drops_in_one_kernel(args: Tuple[Any, ...], named: Dict[str, Any]) -> bool:
    """The arguments are those of torch.nn.functional.scaled_dot_product_attention."""
    share = named.get("dropout_p", args[4] if len(args) > 4 else 0.0)
    query: torch.Tensor = args[0] if args else named["query"]
    return share > 0 and query.device.type != "cpu"


def _attended(args: Tuple[Any, ...], named: Dict[str, Any], low: torch.dtype) -> torch.Tensor:
    """Attention as eager computes it, in that precision: gradients flow through both casts."""

    def lower(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        # A mask made of the least float64 stays finite: a row of nothing else would become NaN.
        within = value.clamp(torch.finfo(low).min, torch.finfo(low).max)
        return torch.where(value.isinf(), value, within).to(low)

    result: torch.Tensor = torch.nn.functional.scaled_dot_product_attention(
        *map(lower, args), **{name: lower(each) for name, each in named.items()}
    )
    return result.to(torch.float64)


def _dropped(args: Tuple[Any, ...], named: Dict[str, Any], low: torch.dtype) -> torch.Tensor:
    """Dropout of the elements that a GPU drops in eager: which they are depends on the type.

    The arguments are those of torch.nn.functional.dropout, or of torch.dropout.
    """
    given = dict(zip(("input", "p", "training", "inplace"), args), **named)
    tensor: torch.Tensor = given["input"]
    share: float = given.get("p", 0.5)
    if not given.get("training", given.get("train", True)) or share == 0:
        return tensor
    kept = torch.dropout(torch.ones_like(tensor, dtype=low), share, True) != 0
    if given.get("inplace"):
        return tensor.mul_(kept).div_(1 - share)
    return tensor * kept / (1 - share)


@contextlib.contextmanager
def bounded(most_bytes: int, what: str) -> Iterator[None]:
    """Raise NoRoomError when a forward pass keeps more for its backward pass than is free."""
    storages: Set[int] = set()
    kept = 0

    def count(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        key = tensor.data_ptr() if tensor.layout is torch.strided else id(tensor)
        if key not in storages:
            storages.add(key)
            kept += tensor.numel() * tensor.element_size()
        if kept > most_bytes:
            raise NoRoomError(
                f"{what} is too small: float64 has to keep more than {megabytes(kept)} between its "
                f"forward and backward pass, and {megabytes(most_bytes)} are left for that"
            )
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        yield


def free_bytes(device: torch.device) -> int:
    """How much memory could be allocated on a device, or in the host; a large number where
    nothing says."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + int(unused)
    found = [_meminfo("MemAvailable"), _group_room()]
    return min((each for each in found if each is not None), default=1 << 62)


def _meminfo(name: str) -> Any:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _group_room() -> Any:
    """What the container's limit leaves; None without a limit. Cached files give way."""
    for folder, limit, used, cached in (
        ("", "memory.max", "memory.current", "file"),
        ("memory/", "memory.limit_in_bytes", "memory.usage_in_bytes", "cache"),
    ):
        with contextlib.suppress(OSError, ValueError):
            most, now, kinds = (
                Path("/sys/fs/cgroup", folder, name).read_text(encoding="ascii")
                for name in (limit, used, "memory.stat")
            )
            files = next(line.split()[1] for line in kinds.splitlines() if line.startswith(cached))
            return max(int(most) - int(now) + int(files), 0)
    return None


def megabytes(count: int) -> str:
    """A size in words: 12 MB, 3.4 GB."""
    if count < 1e6:
        return f"{count / 1e3:.0f} kB"
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
