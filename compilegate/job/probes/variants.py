"""A captured call once more: in float64, compiled, eager."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, ContextManager, Dict, Iterator, List, Optional, Sequence, Tuple, Type

import numpy as np
import torch

from compilegate.job.compilers import Compiler
from compilegate.job.errors import CompilegateError, one_sentence
from compilegate.job.probes.capture import (
    Autocast,
    Call,
    Compiled,
    Convert,
    Copies,
    Forward,
    RandomState,
    named_output_tensors,
    same_layout,
    with_tensors,
)
from compilegate.job.probes.exact import (
    ExactTensors,
    NoRoomError,
    bounded,
    exactly,
    free_bytes,
    in_float64,
    megabytes,
)
from compilegate.job.probes.state import (
    Snapshot,
    TrainingFlags,
)
from compilegate.job.stepping.precision import autocast, products_precision

SMALLEST_SHARE = 1e-3
"""A gradient's error is relative to the gradient's norm, or to this share of the norm of all
gradients together where that is more. Some gradients are zero in exact arithmetic, as that of a key
bias in attention (softmax forgives a constant): what a variant has there is rounding alone."""
BUFFER = "buffer "
GRADIENT = "gradient of "
INPUT_GRADIENT = "gradient of input "

Tensors = Dict[str, torch.Tensor]
"""What a variant computed in one call: outputs and gradients, by name."""
_Named = List[Tuple[str, torch.Tensor]]


class ObstacleError(CompilegateError):
    """Why the variants cannot be compared, in one sentence."""


class _OtherOutputsError(Exception):
    """The output has not as many differentiable tensors as gradients were captured for."""


def relative_to(exact: Tensors) -> Dict[str, float]:
    """What each tensor's error is relative to: the norm of the exact one; see `SMALLEST_SHARE`."""
    norms = {name: float(each.norm()) for name, each in exact.items()}
    smallest = {}
    for group in (INPUT_GRADIENT, GRADIENT):
        members = [name for name in norms if _group(name) == group]
        smallest[group] = SMALLEST_SHARE * float(np.linalg.norm([norms[name] for name in members]))
    return {name: max(norm, smallest.get(_group(name), 0.0)) for name, norm in norms.items()}


def _group(name: str) -> str:
    return next((each for each in (INPUT_GRADIENT, GRADIENT) if name.startswith(each)), "")


class Replay:
    """Replays calls of one function. The module is lent within the context, then as before."""

    def __init__(self, compiled: Compiled, compiler: Compiler) -> None:
        """Raises ObstacleError for a module whose parameters lie in parts on several devices."""
        _require_whole(compiled.module)
        self._function = compiled
        self._compiler = compiler
        self._module = unwrapped(compiled.module)
        self._eager: Forward = compiled.eager
        if getattr(compiled.eager, "__self__", None) is compiled.module:
            own = self._module is compiled.module
            self._eager = compiled.eager if own else self._module.forward
        self._device = compiled.device
        floating = [each for each in self._module.parameters() if each.is_floating_point()]
        self._dtype = floating[0].dtype if floating else torch.float32
        self._parameters = [
            (name, each) for name, each in self._module.named_parameters() if each.requires_grad
        ]
        self._reference: Optional[ExactTensors] = None
        self._place = self._device
        self._names: Dict[int, List[str]] = {}
        """By call, the outputs that its captured gradients belong to."""
        self._written: Dict[int, List[str]] = {}
        """By call, the buffers that it changes."""
        self.precision: Optional[str] = None
        """What the last call computed its products in; None where that does not show."""

    def __enter__(self) -> Replay:
        self._flags = TrainingFlags(
            self._function.module, getattr(self._function, "training", None)
        )
        self._synchronisation = _NoSynchronisation(self._function.module)
        self._snapshot = Snapshot(self._function.module)
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._reference = None
        self._snapshot.restore()
        self._synchronisation.restore()
        self._flags.restore()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def eager(self, call: Call) -> Tensors:
        """The function as the script wrote it."""
        self._require_precision(call)
        self._snapshot.restore()
        return self._run(self._eager, call, self._parameters, same_layout, call.autocast.again())

    def _require_precision(self, call: Call) -> None:
        """Raises ObstacleError where torch has no eager in the call's precision. Before 2.3 the
        autocast of a CPU knows bf16 alone: for fp16 it raises an error, or warns and is off."""
        place = torch.device(call.autocast.device_type)
        try:
            with call.autocast.again():
                now = Autocast.now(place).precision
        except RuntimeError:
            now = "nothing"
        if now != call.autocast.precision:
            raise ObstacleError(
                f"eager cannot be had in {call.autocast.precision} on the {_words(place)} with "
                f"torch {str(torch.__version__).split('+')[0]}, so there is nothing to compare "
                "the compiled step with"
            )

    def compiled(self, call: Call) -> Tensors:
        """What trains."""
        self._snapshot.restore()
        return self._run(
            self._function.compiled, call, self._parameters, same_layout, self._under(call)
        )

    def exact(self, call: Call) -> Tensors:
        """Eager in float64, without autocast: on the module's device, or else in the host's memory.

        Raises ObstacleError where it is not to be had, and where the call draws random numbers that
        the compiler does not share; NoRoomError where memory does not suffice.
        """
        try:
            try:
                return self._exact_somewhere(call)
            except _OtherOutputsError:
                self._names[id(call)] = self._differentiable(call)
                return self._exact_somewhere(call)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise ObstacleError(
                f"the step cannot be computed in float64 here: {one_sentence(error)}"
            ) from error

    def _exact_somewhere(self, call: Call) -> Tensors:
        host = torch.device("cpu")
        try:
            return self._exact(call)
        except (NoRoomError, torch.cuda.OutOfMemoryError):
            if self._place == host:
                raise
        # Outside of the handler: the error holds the frames, and they hold the tensors.
        self._reference, self._place = None, host
        torch.cuda.empty_cache()
        return self._exact(call)

    def _exact(self, call: Call) -> Tensors:
        self._snapshot.restore()
        place = self._place
        room = self._room()
        if self._reference is None:
            self._reference = ExactTensors(self._module, place)
        reference = self._reference
        under = call.autocast.dtype if call.autocast.enabled else None
        with reference.lent(), exactly(self._dtype, under), _no_collectives():
            tensors = self._run(
                self._eager,
                call,
                [(name, reference.parameter(each)) for name, each in self._parameters],
                lambda tensor: in_float64(tensor).to(place),
                bounded(room, f"the free memory of the {_words(place)}"),
            )
        if _has_drawn(call.random, self._device):
            self._require_same_random_numbers()
        if reference.written():
            self._snapshot.keep_parameters(self._module)
            self._reference = None
        return tensors

    def _room(self) -> int:
        """Bytes that are free for what is computed. Raises NoRoomError where there are none."""
        floating = [each for each in self._module.parameters() if each.is_floating_point()]
        own = sum(each.numel() * each.element_size() for _, each in self._parameters)
        gradients = sum(each.numel() for _, each in self._parameters) * 8
        copy = 0 if self._reference is not None else sum(each.numel() for each in floating) * 8
        needed = copy + gradients + (2 * own if self._place == self._device else 0)
        free = free_bytes(self._place)
        if needed > free:
            raise NoRoomError(
                f"float64 takes {megabytes(needed)} for parameters and gradients, and the "
                f"{_words(self._place)} has {megabytes(free)} of memory free"
            )
        return free - needed

    def _require_same_random_numbers(self) -> None:
        if not self._compiler.shares_random_numbers:
            raise ObstacleError(
                "the model draws random numbers (dropout), and the compiler draws its own"
            )
        if self._place.type != self._device.type:
            raise ObstacleError(
                "the model draws random numbers (dropout), and float64 fits the host's memory "
                f"alone, where others are drawn than on the {_words(self._device)}"
            )

    def _under(self, call: Call) -> ContextManager[Any]:
        """The autocast of the compiled call, which may compute on a device of its own."""
        device = self._compiler.device(self._device)
        if device.type == self._device.type:
            return call.autocast.again()
        return autocast(call.autocast.precision, device)

    def _differentiable(self, call: Call) -> List[str]:
        """The compiled output's differentiable tensors: those that have captured gradients."""
        self._snapshot.restore()
        arguments, named, _ = _copied(call, same_layout)
        call.random.restore(self._device)
        with torch.enable_grad(), self._under(call):
            output = self._function.compiled(*arguments, **named)
        return [name for name, each in _outputs(output) if each.requires_grad]

    def _run(
        self,
        function: Forward,
        call: Call,
        parameters: Sequence[Tuple[str, torch.Tensor]],
        convert: Convert,
        surroundings: ContextManager[Any],
    ) -> Tensors:
        """A forward pass in these surroundings, and the gradients."""
        arguments, named, inputs = _copied(call, convert)
        call.random.restore(self._device)
        # By value: some operations write into buffers without a trace.
        before = {name: each.clone() for name, each in self._buffers()}
        with torch.enable_grad():
            with surroundings:
                output = function(*arguments, **named)
            outputs = _outputs(output)
            self.precision = products_precision(each for _, each in outputs)
            starts = self._starts(call, outputs)
            found = {name: each.detach() for name, each in outputs}
            if id(call) not in self._written:  # the exact one comes first
                self._written[id(call)] = [
                    name
                    for name, each in self._buffers()
                    if name not in before or not torch.equal(before[name], each)
                ]
            found.update(
                (BUFFER + name, each.detach().clone())
                for name, each in self._buffers()
                if name in self._written[id(call)]
            )
            if starts:
                wanted = [*((GRADIENT + name, each) for name, each in parameters), *inputs]
                found.update(_gradients(starts, wanted))
        return found

    def _buffers(self) -> _Named:
        """The module's floating buffers as they are now."""
        return [
            (name, each)
            for name, each in self._module.named_buffers()
            if each.is_floating_point() or each.is_complex()
        ]

    def _starts(self, call: Call, outputs: _Named) -> _Named:
        """The outputs that gradients came back to, each name with both tensors."""
        differentiable = {name: each for name, each in outputs if each.requires_grad}
        if all(each is None for each in call.cotangents):
            return []
        names = self._names.get(id(call))
        if names is None:
            if len(differentiable) != len(call.cotangents):
                raise _OtherOutputsError
            names = self._names[id(call)] = list(differentiable)
        came = dict(zip(names, call.cotangents))
        starts: List[Tuple[Any, Any]] = []
        for name, output in differentiable.items():
            # What the compiled output cuts off had no gradient to capture: any will show that.
            one = came.get(name) if name in came else torch.ones_like(output)
            if one is not None and one.shape == output.shape:
                starts.append((output, one.to(output.device, output.dtype)))
        return starts


def unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """The module that DistributedDataParallel wraps; any other as it is."""
    inner = getattr(module, "module", None)
    is_wrapper = type(module).__name__ in ("DistributedDataParallel", "DataParallel")
    return inner if is_wrapper and isinstance(inner, torch.nn.Module) else module


class _NoSynchronisation:
    """Has DistributedDataParallel neither send buffers nor expect gradients, until restored."""

    _SWITCHES = ("require_backward_grad_sync", "require_forward_param_sync")

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._before = {
            name: getattr(module, name) for name in self._SWITCHES if name in vars(module)
        }
        vars(module).update(dict.fromkeys(self._before, False))

    def restore(self) -> None:
        vars(self._module).update(self._before)


def _require_whole(module: torch.nn.Module) -> None:
    for each in module.modules():
        if "FullySharded" in type(each).__name__ or type(each).__name__.startswith("FSDP"):
            raise ObstacleError(
                f"{type(each).__name__} keeps each parameter in parts on several devices, and the "
                "probe needs them whole; probe the model in one process, or with "
                "DistributedDataParallel"
            )
    places = {str(each.device) for each in module.parameters()}
    if len(places) > 1:
        raise ObstacleError(
            f"the parameters lie on several devices ({', '.join(sorted(places))}), and the probe "
            "needs them on one"
        )


def _copied(call: Call, convert: Convert) -> Tuple[Any, Any, _Named]:
    """The call's arguments with tensors of their own, and those that want gradients."""
    copies = Copies(convert)
    arguments = [with_tensors(each, copies) for each in call.arguments]
    named = {name: with_tensors(each, copies) for name, each in call.named.items()}
    places = [*((str(place), each) for place, each in enumerate(arguments)), *named.items()]
    inputs: Dict[int, Tuple[str, torch.Tensor]] = {}
    for path, value in places:
        for name, each in named_output_tensors(value, path):
            if each.requires_grad:
                inputs.setdefault(id(each), (INPUT_GRADIENT + name, each))
    return arguments, named, list(inputs.values())


def _outputs(output: Any) -> _Named:
    """The tensors of an output by name: `loss` for its one number, `output.PATH` for the others."""
    tensors = named_output_tensors(output)
    numbers = [path for path, each in tensors if each.dim() == 0]
    loss = (
        numbers[0]
        if len(numbers) == 1
        else next((path for path in numbers if path.rpartition(".")[2] == "loss"), None)
    )
    return [
        ("loss" if path == loss else f"output.{path}" if path else "output", each)
        for path, each in tensors
    ]


def _gradients(starts: Sequence[Tuple[Any, Any]], wanted: _Named) -> Tensors:
    """The vector-Jacobian product, without leaving anything in `grad` or calling its hooks."""
    outputs, cotangents = zip(*starts)
    tensors = [each for _, each in wanted]
    found = torch.autograd.grad(outputs, tensors, cotangents, allow_unused=True) if tensors else ()
    gradients = {}
    for (name, tensor), gradient in zip(wanted, found):
        gradients[name] = _dense(gradient, tensor)
    return gradients


def _dense(gradient: Optional[torch.Tensor], of: torch.Tensor) -> torch.Tensor:
    """No gradient at all is a gradient of zero, in whichever variant it happens."""
    if gradient is None:
        return torch.zeros((), dtype=of.dtype, device=of.device).expand(of.shape)
    dense = gradient if gradient.layout is torch.strided else gradient.to_dense()
    return dense.detach()


def _has_drawn(before: RandomState, device: torch.device) -> bool:
    """Whether random numbers were drawn since the generators were in that state."""
    now = RandomState.now(device)
    return not torch.equal(now.host, before.host) or (
        now.device is not None
        and before.device is not None
        and not torch.equal(now.device, before.device)
    )


@contextlib.contextmanager
def _no_collectives() -> Iterator[None]:
    """Raise ObstacleError for code that waits for other processes: they may not be here."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        yield
        return
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415

    class Alone(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if "c10d" in getattr(func, "namespace", ""):
                raise ObstacleError(
                    "the model waits for other processes within its forward or backward pass "
                    f"({func}), and the probe runs in each one by itself"
                )
            return func(*args, **(kwargs or {}))

    with Alone():
        yield


def _words(device: torch.device) -> str:
    return "GPU" if device.type == "cuda" else "host" if device.type == "cpu" else device.type
