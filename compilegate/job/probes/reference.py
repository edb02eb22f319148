"""A function in float64, eager and compiled, forward and backward: how each is run and compared.
Repro scripts contain this file, so it needs nothing but torch."""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import os
import sys
from typing import Any, Callable, Dict, Iterator, NamedTuple, Sequence

import torch

Tensors = Dict[str, torch.Tensor]
GRADIENT, INPUT_GRADIENT, BUFFER = "gradient of ", "gradient of input ", "buffer "
AFTERWARDS = " afterwards"
"""Behind the name of an input that the function writes into: how much it changed."""
MARK = "  <- wrong"
SMALLEST_SHARE = 1e-3
"""A gradient's error is relative to its norm, or to this share of the norm of all gradients where
that is more, and so is a buffer change's: some gradients are zero in exact arithmetic (a key bias
in attention), and a variant has rounding alone there."""
HUGE = 3.4e38  # numbers of this size are infinite ones: masks of the least number of a precision
COARSE = 0.02
"""Where eager errs by more than this share of a buffer's change, its value is the scale."""


# Errors.


def scales(exact: Tensors) -> dict[str, float]:
    """What each tensor's error is relative to: the norm of the exact one; see `SMALLEST_SHARE`."""
    norms = {name: norm(wide(each)) for name, each in exact.items()}
    kinds = (INPUT_GRADIENT, GRADIENT, BUFFER)
    kind_of = {name: next((each for each in kinds if name.startswith(each)), "") for name in norms}
    least = {
        kind: SMALLEST_SHARE * math.hypot(*(norms[name] for name in norms if kind_of[name] == kind))
        for kind in kinds
    }
    return {name: max(each, least.get(kind_of[name], 0.0)) for name, each in norms.items()}


class Errors(NamedTuple):
    """How far a tensor of each kind is from the exact one, on its scale."""

    eager: float  # the largest of several eager ones
    repeated: float  # of eager once more, from eager
    compiled: float
    is_lost: bool
    """Whether the compiled one is exactly zero, and should not be: it is off by all of itself."""


def judge(
    exact: Tensors,
    eagers: Sequence[Tensors],
    again: Tensors,
    compiled: Tensors,
    sizes: dict[str, float],
) -> dict[str, Errors]:
    """The errors of each tensor. `again` is the first of `eagers` once more; `sizes` are norms of
    buffers by name of their change. What one variant changes and another does not has a change of
    zero there."""
    changes = {
        name: each
        for one in (compiled, eagers[0], exact)
        for name, each in one.items()
        if name.startswith(BUFFER) or name.endswith(AFTERWARDS)
    }
    unchanged = {name: torch.zeros_like(each) for name, each in changes.items()}
    scale = scales({**exact, **changes, **exact})
    exact, again, compiled, *eagers = (
        {**unchanged, **each} for each in (exact, again, compiled, *eagers)
    )
    first = eagers[0]
    found: dict[str, Errors] = {}
    for name, each in exact.items():
        if name in changes and error(first[name], each, scale[name]) > COARSE:
            scale[name] = max(scale[name], sizes.get(name, 0.0))
    for name, size in scale.items():
        each, lost = exact[name], is_lost(compiled.get(name), first.get(name), exact[name])
        found[name] = Errors(
            eager=max(error(one.get(name), each, size) for one in eagers),
            repeated=error(again.get(name), first.get(name), size),
            compiled=max(error(compiled.get(name), each, size), float(lost)),
            is_lost=lost,
        )
    return found


def error(found: torch.Tensor | None, exact: torch.Tensor | None, scale: float) -> float:
    """How far a tensor is from the exact one: the norm of the difference, on that scale."""
    if found is None or exact is None or found.shape != exact.shape:
        return float("inf")
    distance = norm(difference(exact, found.to(exact.device)))
    return 0.0 if distance == 0 else distance / scale if scale > 0 else float("inf")


def is_lost(found: torch.Tensor | None, eager: torch.Tensor | None, exact: torch.Tensor) -> bool:
    """Whether a tensor is exactly zero where eager's, however small, is nearer to the exact one
    than zero."""
    if found is None or found.any() or eager is None or not eager.any():
        return False
    return error(eager, exact, norm(wide(exact))) < 0.5


def difference(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """The second less the first, in float64; equal infinite numbers have none."""
    before, after = wide(before), wide(after)
    if before.shape != after.shape:
        return after
    return torch.where(before == after, torch.zeros_like(after), after - before)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """In float64, or complex128, of any other type, with `HUGE` numbers as infinite ones."""
    if tensor.is_complex():
        return tensor.detach().to(torch.complex128)
    found = tensor.detach().to(torch.float64)
    return torch.where(found.abs() >= HUGE, found.sign() * float("inf"), found)


def norm(tensor: torch.Tensor) -> float:
    """NaN counts, infinite numbers do not: those that eager has as well differ by nothing."""
    return float(torch.where(tensor.abs() == float("inf"), torch.zeros_like(tensor), tensor).norm())


# Float64.

_LOW = (torch.float32, torch.float16, torch.bfloat16)
_TWICE = {torch.complex32: torch.complex128, torch.complex64: torch.complex128}


def in_float64(tensor: torch.Tensor) -> torch.Tensor:
    """A detached copy in float64, or complex128; of another type, such as integers, in that."""
    if tensor.is_complex():
        return tensor.detach().to(torch.complex128, copy=True)
    kind = torch.float64 if tensor.is_floating_point() else tensor.dtype
    return tensor.detach().to(kind, copy=True)


_CASTS = frozenset({"float", "half", "bfloat16"})
_DRAWN = frozenset({"rand", "randn", "normal", "rand_like", "randn_like"})
_SAMPLED = frozenset({"bernoulli", "multinomial", "poisson"})
_FILLED = frozenset(
    {"normal_", "uniform_", "exponential_", "log_normal_"}
    | {"bernoulli_", "cauchy_", "geometric_", "random_"}
)
_DROPPING = frozenset({"dropout", "feature_dropout"})
_DRAWING = _DRAWN | _SAMPLED | _FILLED | _DROPPING
"""Functions of torch and methods of tensors, by name."""
_Mode: Any = getattr(torch.overrides, "TorchFunctionMode", contextlib.nullcontext)
"""Torch before 1.13 has none: nothing is noted then."""
_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def _within(mode: Any, func: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """Call a function of torch so that the mode sees what it calls. One written in Python asks
    first whether there is a mode, and would hand the call back to it: that one question is answered
    with no."""
    home = vars(torch.nn.functional)
    own = {name: home[name] for name in _CHECKS if name in home}
    if home.get(getattr(func, "__name__", "")) is not func or not hasattr(func, "__code__"):
        return func(*args, **named)
    if own.keys().isdisjoint(func.__code__.co_names):
        return func(*args, **named)

    def first(*_: Any) -> bool:
        home.update(own)
        return False

    with mode:
        home.update(dict.fromkeys(own, first))
        try:
            return func(*args, **named)
        finally:
            home.update(own)


class Draw(NamedTuple):
    """How random numbers were drawn for a tensor."""

    dtype: torch.dtype
    strides: tuple[int, ...]
    """Those of a dense tensor like it: elements get their numbers in the order of the memory."""


class DrawRecorder(_Mode):
    """Have a list note how random numbers are drawn."""

    def __init__(self, drawn: list[Draw]) -> None:
        super().__init__()
        self._drawn = drawn

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named, name = kwargs or {}, getattr(func, "__name__", "")
        if name not in _DRAWING:
            return _within(self, func, args, named)
        result = func(*args, **named)
        tensor = result if name in _DRAWN else _first(args, named)
        self._drawn.append(Draw(tensor.dtype, _dense_strides(tensor)))
        return result


class _Float64Mode(_Mode):
    """Computes in float64, and draws random numbers as eager does."""

    def __init__(self, drawn: Sequence[Draw], usual: torch.dtype, attention: torch.dtype) -> None:
        super().__init__()
        self._types = (each.dtype for each in drawn)
        self._usual, self._attention = usual, attention

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if name in _DRAWING:
            low = next(self._types, self._usual)
            if name not in _DROPPING:
                return _drawn(func, args, named, low)
            if _first(args, named).is_cuda:
                return _dropped(name, args, named, low)
        if name in _CASTS:
            func, args, named = torch.Tensor.double, args[:1], {}
        if name in ("grouped_mm", "_grouped_mm"):
            return _by_group(*args, **named)
        if name == "scaled_dot_product_attention" and _drops_in_one_kernel(args, named):
            return attended(args, named, self._attention)
        if name == "_enter_autocast":  # in graphs that were captured
            return func(*args[:2], False, *args[3:])
        named = {name: _exact_type(each) for name, each in named.items()}
        return _within(self, func, [_exact_type(each) for each in args], named)


def _drawn(function: Any, args: Sequence[Any], named: dict[str, Any], low: torch.dtype) -> Any:
    name = function.__name__
    if name in _FILLED:
        tensor = args[0]
        if tensor.dtype is not torch.float64:
            return function(*args, **named)
        return tensor.copy_(function(torch.empty_like(tensor, dtype=low), *args[1:], **named))
    if name in _DRAWN and (name != "normal" or not any(map(_is_tensor, args))):
        named["dtype"] = low  # of tensors torch.normal takes none
    args = [
        each.to(low) if _is_tensor(each) and each.is_floating_point() else each for each in args
    ]
    return in_float64(function(*args, **named))


class DrawReplay(_Mode):
    """Draw what eager drew for tensors that lie otherwise in memory: dropout drops the same."""

    def __init__(self, drawn: Sequence[Draw]) -> None:
        super().__init__()
        self._drawn = iter(drawn)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named, name = dict(kwargs or {}), getattr(func, "__name__", "")
        draw = next(self._drawn, None) if name in _DRAWING else None
        if draw is None or name in _DRAWN:
            return _within(self, func, args, named)
        tensor = _first(args, named)
        if draw.strides == _dense_strides(tensor) or len(draw.strides) != tensor.dim():
            return func(*args, **named)
        like = {"dtype": tensor.dtype, "device": tensor.device}
        own = torch.empty_strided(tensor.shape, draw.strides, **like).copy_(tensor)
        args, named = ((own, *args[1:]), named) if args else ((), {**named, "input": own})
        result = func(*args, **named)
        in_place = name in _FILLED or named.get("inplace", args[3:] == (True,))
        return tensor.copy_(result) if in_place else result


def _dense_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    return torch.empty_like(tensor, device="meta").stride()


_MOST_ADDITIONS = {"cpu": 2**14, "cuda": 2**8}
"""A sum of more rows adds their blocks: each addition takes a microsecond, or a kernel's launch."""


@contextlib.contextmanager
def in_turn() -> Iterator[None]:
    """Add float32 numbers one after another, as compiled loops do, where eager adds them in pairs.
    Of thousands of almost equal numbers that errs a hundred times as much, and nothing is wrong."""
    if _Mode is contextlib.nullcontext:  # torch before 1.13 has no such mode either
        yield
        return
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415

    aten, decomposed = torch.ops.aten, importlib.import_module("torch._decomp").decomposition_table
    norms = {aten.native_layer_norm_backward, aten.native_group_norm_backward}
    norms |= {aten.native_batch_norm_backward}

    class InTurn(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            named, packet = kwargs or {}, getattr(func, "overloadpacket", None)
            if packet in norms and func in decomposed:
                with self:
                    return decomposed[func](*args, **named)
            if func is aten.sum.dim_IntList and args[0].dtype is torch.float32 and args[1]:
                return _sum_in_turn(*args, **named)
            result = func(*args, **named)
            if func is aten.convolution_backward.default and result[2] is not None:
                others = [dim for dim in range(args[0].dim()) if dim != 1]
                bias = args[0] if args[0].dtype is torch.float32 else args[0].float()
                result = (*result[:2], _sum_in_turn(bias, others).to(result[2].dtype))
            return result

    with InTurn():
        yield


def _sum_in_turn(
    tensor: torch.Tensor, dims: Sequence[int], keepdim: bool = False, **_: Any
) -> torch.Tensor:
    summed = sorted(dim % tensor.dim() for dim in dims)
    left = [dim for dim in range(tensor.dim()) if dim not in summed]
    shape = [1 if dim in summed else size for dim, size in enumerate(tensor.shape)]
    rows = tensor.permute(*summed, *left).reshape(-1, *(tensor.shape[dim] for dim in left))
    most = _MOST_ADDITIONS.get(tensor.device.type, _MOST_ADDITIONS["cuda"])
    if len(rows) > most:
        rows = torch.stack([each.sum(dim=0) for each in rows.chunk(most)])
    total = torch.zeros_like(rows[0]) if len(rows) else rows.sum(dim=0)
    for row in rows.unbind():
        total += row
    return total.reshape(shape) if keepdim else total


@contextlib.contextmanager
def exactly(
    drawn: Sequence[Draw] = (),
    usual: torch.dtype = torch.float32,
    attention: torch.dtype | None = None,
) -> Iterator[None]:
    """Compute in float64 even where code names a precision, without autocast.

    Random numbers are drawn in eager's types, one after another of `drawn`, or the `usual` one: in
    float64 they would be others. On a GPU, attention with dropout is one kernel that draws by
    itself, and runs in `attention` or the usual type; its rounding is then the reference's too.
    """
    default = torch.get_default_dtype()
    with contextlib.ExitStack() as stack:
        for kind in ("cpu", "cuda"):
            if kind == "cpu" or torch.cuda.is_available():
                stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(_Float64Mode(drawn, usual, attention or usual))
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(default)


def _first(args: Sequence[Any], named: dict[str, Any]) -> torch.Tensor:
    tensor: torch.Tensor = args[0] if args else next(iter(named.values()))
    return tensor


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _exact_type(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value in _LOW else _TWICE.get(value, value)
    return value


def _drops_in_one_kernel(args: Sequence[Any], named: dict[str, Any]) -> bool:
    share = named.get("dropout_p", args[4] if len(args) > 4 else 0.0)
    return share > 0 and _first(args, named).device.type != "cpu"


def attended(args: Sequence[Any], named: dict[str, Any], low: torch.dtype) -> torch.Tensor:
    """Attention as eager computes it, in that precision: gradients flow through both casts."""

    def lower(value: Any) -> Any:
        if not _is_tensor(value) or not value.is_floating_point():
            return value
        # A mask made of the least float64 stays finite: a row of nothing else would become NaN.
        within = value.clamp(torch.finfo(low).min, torch.finfo(low).max)
        return torch.where(value.isinf(), value, within).to(low)

    result: torch.Tensor = torch.nn.functional.scaled_dot_product_attention(
        *map(lower, args), **{name: lower(each) for name, each in named.items()}
    )
    return result.to(torch.float64)


def _by_group(
    rows: torch.Tensor, matrices: torch.Tensor, *, offs: Any = None, bias: Any = None, **_: Any
) -> torch.Tensor:
    """Each expert's rows by its matrix, as grouped_mm, which takes no float64. Rows after the last
    offset are zero."""
    rows, matrices = rows.double(), matrices.double()
    if offs is None or rows.dim() != 2 or matrices.dim() != 3:
        raise NotImplementedError(
            "grouped_mm has a float64 here for rows and a matrix for each group alone"
        )
    ends = offs.tolist()
    parts = [
        rows[begin:end] @ each for begin, end, each in zip([0, *ends], ends, matrices.unbind())
    ]
    result = torch.cat([*parts, rows.new_zeros(len(rows) - ends[-1], matrices.shape[2])])
    return result if bias is None else result + bias


def _dropped(
    name: str, args: Sequence[Any], named: dict[str, Any], low: torch.dtype
) -> torch.Tensor:
    """Dropout of what a GPU drops in eager, which depends on the type."""
    given = dict(zip(("input", "p", "training", "inplace"), args), **named)
    tensor: torch.Tensor = given["input"]
    share: float = given.get("p", 0.5)
    if not given.get("training", given.get("train", True)) or share == 0:
        return tensor
    mask: torch.Tensor = getattr(torch, name)(torch.ones_like(tensor, dtype=low), share, True) != 0
    if given.get("inplace"):
        return tensor.mul_(mask).div_(1 - share)
    return tensor * mask / (1 - share)


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """A detached copy; of an image or a kernel with channels last, as compilers lay them out."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    own = tensor.detach()
    if own.layout is not torch.strided or own.dim() not in formats:
        return own.clone()
    return own.clone(memory_format=formats[own.dim()])


# A function with its inputs: what a script is made of.


class How(NamedTuple):
    compiler: dict[str, Any]
    """What torch.compile is given: backend, mode, options, dynamic; and fallback_random."""
    device: str  # its type: cpu, cuda
    autocast: str | None
    """The precision that surrounds it, such as bfloat16; None without autocast."""
    epsilon: float  # distance from 1 to the next number of the precision
    limit: float  # how many times eager's error is too far

    def surroundings(self) -> Any:
        if self.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device, getattr(torch, self.autocast))


class Row(NamedTuple):
    """One tensor: its norms in float64, eager and compiled, and the errors of the latter two
    relative to its scale."""

    exact: float
    eager: float
    compiled: float
    eager_error: float
    compiled_error: float

    def is_wrong(self, how: How) -> bool:
        return not self.compiled_error <= how.limit * max(self.eager_error, how.epsilon)


def compiled_by(function: Callable[..., Any], how: dict[str, Any]) -> Callable[..., Any]:
    if how["backend"] == "inductor":
        inductor = importlib.import_module("torch._inductor")
        config: Any = importlib.import_module("torch._inductor.config")
        config.fallback_random = how["fallback_random"]
        options = {**inductor.list_mode_options(how["mode"], how["dynamic"]), **how["options"]}
        return torch.compile(function, dynamic=how["dynamic"], options=options or None)
    module, _, name = how["backend"].rpartition(".")
    if module:
        backend = getattr(importlib.import_module(module), name)
    else:
        backend = importlib.import_module("torch._dynamo.backends.registry").lookup_backend(name)
    settings = {} if how["mode"] == "default" else {"mode": how["mode"]}
    if how["options"]:
        settings["options"] = how["options"]
    if settings:
        backend = functools.partial(backend, **settings)
    return torch.compile(function, backend=backend, dynamic=how["dynamic"])


def compared(
    function: Callable[..., Any],
    inputs: dict[str, Any],
    outputs: Sequence[str],
    cotangents: Tensors,
    how: How,
) -> dict[str, Row]:
    """Outputs, gradients and changed inputs of a function by name. `cotangents`, by output, are
    where the backward pass starts."""
    drawn: list[Draw] = []

    def run(
        one: Callable[..., Any], convert: Callable[[torch.Tensor], torch.Tensor] = torch.clone
    ) -> Tensors:
        values = {name: copied(each, convert) for name, each in inputs.items()}
        tensors = {name: each for name, each in values.items() if _is_tensor(each)}
        torch.default_generator.manual_seed(0)  # torch.manual_seed would seed unused GPUs as well
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(0)

        def compute() -> Tensors:
            with exactly(drawn) if convert is in_float64 else how.surroundings():
                results = dict(zip(outputs, one(*values.values())))
                return {name: each for name, each in results.items() if _has_gradients(each)}

        return passes(
            compute,
            watched=lambda: {
                name + AFTERWARDS: each for name, each in tensors.items() if not each.requires_grad
            },
            starts=lambda results: [
                (each, cotangents[name].to(each.dtype))
                for name, each in results.items()
                if each.requires_grad and name in cotangents
            ],
            wanted={GRADIENT + name: each for name, each in tensors.items() if each.requires_grad},
        )

    with DrawRecorder(drawn):
        eagers = [run(function)]
    with in_turn(), DrawReplay(drawn):
        eagers.append(run(function, channels_last))
    exact, found = run(function, in_float64), run(compiled_by(function, how.compiler))
    rows = {}
    for name, each in judge(exact, eagers, eagers[0], found, {}).items():
        norms = [norm(wide(one[name])) if name in one else 0.0 for one in (exact, eagers[0], found)]
        rows[name] = Row(norms[0], norms[1], norms[2], each.eager, each.compiled)
    return rows


def _has_gradients(value: Any) -> bool:
    return _is_tensor(value) and (value.is_floating_point() or value.is_complex())


def passes(
    compute: Callable[[], Tensors],
    watched: Callable[[], Tensors],
    starts: Callable[[Tensors], list[tuple[torch.Tensor, torch.Tensor]]],
    wanted: Tensors,
) -> Tensors:
    """A forward and a backward pass: results, changes of what is `watched`, and gradients of what
    is `wanted`, by name; a missing gradient is zero. `starts` pairs outputs with their gradients.
    """
    # By value: some operations write into buffers without a trace.
    before = {name: each.clone() for name, each in watched().items()}
    outputs = compute()
    pairs, gradients = starts(outputs), ()
    if pairs and wanted:
        gradients = torch.autograd.grad(
            [output for output, _ in pairs],
            list(wanted.values()),
            [cotangent for _, cotangent in pairs],
            allow_unused=True,
        )
    found = {name: each.detach() for name, each in outputs.items()}
    for name, each in watched().items():
        if name in before and not torch.equal(before[name], each):
            found[name] = difference(before[name], each)
    for (name, each), gradient in zip(wanted.items(), gradients):
        own = torch.zeros_like(each) if gradient is None else gradient
        found[name] = (own if own.layout is torch.strided else own.to_dense()).detach()
    return found


def copied(value: Any, convert: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A converted copy of a tensor, a parameter if it is one; anything else as it is."""
    if not _is_tensor(value):
        return value
    copy = convert(value.detach())
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(copy, requires_grad=value.requires_grad)
    return copy.requires_grad_(value.requires_grad)


def stored(file: str, device: str) -> Any:
    """What `torch.save` left in a file beside this script."""
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    return torch.load(os.path.join(folder, file), map_location=device, weights_only=True)


def show(rows: dict[str, Row], labels: dict[str, str], how: How) -> bool:
    """Print norms and errors side by side, with a mark at what is wrong; whether anything is."""
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}")
    titles = ("float64", "eager", "compiled", "error of eager", "of compiled")
    print(" ".join(f"{title:>14}" for title in titles))
    for name, row in rows.items():
        title = " ".join(labels.get(word, word) for word in name.split(" "))
        mark = MARK if row.is_wrong(how) else ""
        norms = " ".join(f"{each:14.7g}" for each in row[:3])
        print(f"{norms} {row.eager_error:14.2g} {row.compiled_error:14.2g}  {title}{mark}")
    return any(row.is_wrong(how) for row in rows.values())
