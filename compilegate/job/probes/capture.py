"""The first calls of what a training script compiles, kept for the probes: inputs, surroundings,
and the gradients that came back to the output. Replaying a call is a forward pass and a
vector-Jacobian product, whatever the loss was."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import itertools
import traceback
import types
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Iterable, Iterator, TypeVar

import torch

from compilegate.job.errors import CompilegateError, one_sentence
from compilegate.job.machine.numerics import Generators, autocast_now, name_of

if TYPE_CHECKING:
    from compilegate.job.compilers import Compiler

Forward = Callable[..., Any]
Convert = Callable[[torch.Tensor], torch.Tensor]
_Result = TypeVar("_Result")


class ObstacleError(CompilegateError):
    """Why a probe has nothing to compare, in one sentence."""


class NoRoomError(ObstacleError):
    """What a probe needs does not fit the memory that is free; the message has the figures."""


def attempted(measure: Callable[[], _Result]) -> tuple[_Result | None, str | None]:
    """What was measured, or why it could not be. Exceptions of the probes end here, whatever they
    are: no training must be lost to a measurement."""
    try:
        return measure(), None
    except ObstacleError as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001 - see above
        traceback.print_exc()
        return None, f"the probe broke off: {one_sentence(error)}"


@contextlib.contextmanager
def no_new_graphs(compiler: Compiler) -> Iterator[None]:
    """Raise ObstacleError for graphs compiled within: other code was looked at than what trained.
    Compilers of whole steps have to compile anew."""
    graphs = compiler.graphs()
    yield
    if compiler.graphs() != graphs and not compiler.compiles_whole_steps:
        raise ObstacleError("the probe made the compiler compile anew, so it looked at other code")


def megabytes(count: int) -> str:
    if count < 1e6:
        return f"{count / 1e3:.0f} kB"
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


@dataclass(frozen=True)
class Autocast:
    """Whether operations on a device run in mixed precision, and in which."""

    device_type: str
    enabled: bool
    dtype: torch.dtype
    cache_enabled: bool = True
    """Whether cast weights are kept for a while; a guard of dynamo's, so a replay needs it too."""

    @classmethod
    def now(cls, device: torch.device) -> Autocast:
        if device.type not in ("cuda", "cpu"):
            return cls(device.type, False, torch.float32)
        return cls(device.type, *autocast_now(device.type), torch.is_autocast_cache_enabled())

    def again(self) -> ContextManager[Any]:
        if self.device_type not in ("cuda", "cpu"):
            return contextlib.nullcontext()
        return torch.autocast(
            self.device_type,
            dtype=self.dtype,
            enabled=self.enabled,
            cache_enabled=self.cache_enabled,
        )

    @property
    def precision(self) -> str:
        return name_of(self.dtype) if self.enabled else "fp32"


@dataclass
class Call:
    """One call of a compiled function within a step."""

    step: int  # from 0
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    """Both hold detached copies of tensors, which want gradients where the originals did."""
    random: Generators  # before the call
    autocast: Autocast
    cotangents: dict[str, torch.Tensor | None] = field(default_factory=dict)
    """By name of `named_output_tensors`, the gradient that the backward pass brought; None where
    none came."""
    places: tuple[torch.device, ...] = ()
    """Where its tensors were, in order, while they are in the host's memory."""
    obstacle: str | None = None
    """Why a replay of it would not show what trained; None where it does."""


@dataclass
class Compiled:
    """One function that the job compiled, and its calls in the first steps."""

    name: str  # the module's class, or the function's name; unique in the job
    module: torch.nn.Module  # holds the parameters and buffers
    eager: Forward  # the function as the script wrote it
    compiled: Forward  # the compiler's
    calls: list[Call] = field(default_factory=list)
    calls_a_step: int = 0  # how many the last of these steps made, with those that were not kept
    training: dict[str, bool] = field(default_factory=dict)
    """Whether each submodule was in training mode at the last kept call, by name."""

    @property
    def device(self) -> torch.device:
        tensors = itertools.chain(self.module.parameters(), self.module.buffers())
        return next((each.device for each in tensors), torch.device("cpu"))

    def capture_call(self, step: int, arguments: tuple[Any, ...], named: dict[str, Any]) -> Call:
        """Keep a call that is about to be made. One that cannot be copied is an obstacle to the
        probes only."""
        call = Call(step, (), {}, Generators(), Autocast.now(self.device))
        copies = Copies()
        try:
            call.arguments = tuple(with_tensors(each, copies) for each in arguments)
            call.named = {name: with_tensors(each, copies) for name, each in named.items()}
        except Exception as error:  # noqa: BLE001 - of classes of the script's own, or of memory
            call.obstacle = f"a call's inputs cannot be copied: {one_sentence(error)}"
        self.calls.append(call)
        self.training = {name: each.training for name, each in self.module.named_modules()}
        return call

    def with_calls_on_device(self) -> Compiled:
        """The same, with its calls back on their devices. Raises ObstacleError where one would not
        show what trained."""
        for call in self.calls:
            if call.obstacle is not None:
                raise ObstacleError(call.obstacle)
        return replace(self, calls=[moved_back(each) for each in self.calls])


def moved_to_host(call: Call) -> Call:
    """The call with all of its tensors in the host's memory."""
    places: list[torch.device] = []

    def host(tensor: torch.Tensor) -> torch.Tensor:
        places.append(tensor.device)
        return tensor.to("cpu")

    return replace(with_tensors(call, Copies(host)), places=tuple(places))


def moved_back(call: Call) -> Call:
    """The call with each tensor on the device that it was taken from."""
    if not call.places:
        return call
    places = iter(call.places)
    return replace(with_tensors(call, Copies(lambda tensor: tensor.to(next(places)))), places=())


def await_cotangents(call: Call, output: Any) -> None:
    """Have the script's backward passes leave with `call`, added up, what they bring to the tensors
    of `output`."""
    tensors = {name: each for name, each in named_output_tensors(output) if each.requires_grad}
    call.cotangents = dict.fromkeys(tensors)

    def take(name: str, gradient: torch.Tensor | None) -> None:
        if gradient is None or call.obstacle is not None:
            return  # a compiled function's outputs have one node, which other outputs reached
        if torch.is_grad_enabled():
            call.obstacle = (
                "the training differentiates twice (as a gradient penalty does), and one backward "
                "pass is all that is compared"
            )
            return
        try:
            before, new = call.cotangents[name], gradient.detach().clone()
            call.cotangents[name] = new if before is None else before + new
        except Exception as error:  # noqa: BLE001 - the script's backward pass goes on
            call.obstacle = f"a gradient cannot be kept: {one_sentence(error)}"

    for name, each in tensors.items():
        each.register_hook(functools.partial(take, name))


def named_output_tensors(output: Any, path: str = "") -> list[tuple[str, torch.Tensor]]:
    """The floating tensors anywhere in a function's result, with their paths: `logits`, `0`,
    `states.1`; empty for a tensor alone."""
    if isinstance(output, torch.Tensor):
        return [(path, output)] if output.is_floating_point() or output.is_complex() else []
    if isinstance(output, (list, tuple)):
        output = dict(enumerate(output))
    parts = output if isinstance(output, dict) else getattr(output, "__dict__", {})
    return [
        found
        for name, each in parts.items()
        for found in named_output_tensors(each, f"{path}.{name}" if path else str(name))
    ]


class Copies:
    """Detached copies of tensors, one for each, that want gradients where the originals do."""

    def __init__(self, convert: Convert | None = None) -> None:
        """`convert` makes a new tensor of one; without it, copies are equal in all."""
        self._convert = convert or same_layout
        self._made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._made:
            copy = self._convert(tensor)
            if copy.is_floating_point() or copy.is_complex():
                copy.requires_grad_(tensor.requires_grad)
            self._made[id(tensor)] = tensor, copy
        return self._made[id(tensor)][1]


_MOST_BASE_BYTES = 256_000_000


def same_layout(tensor: torch.Tensor) -> torch.Tensor:
    """A detached copy with the same strides, overlaps and gaps included; a view where the tensor is
    one, since guards of dynamic shapes look behind views."""
    own, base = tensor.detach(), tensor._base
    copy = own.clone()
    if tensor.layout is not torch.strided or type(tensor) is not torch.Tensor or not own.numel():
        return copy
    shape, strides = own.shape, own.stride()
    extent = sum((size - 1) * step for size, step in zip(shape, strides)) + 1
    values = own.as_strided((extent,), (1,), own.storage_offset())
    if base is None or not _can_be_made_again(base, tensor):
        return copy if copy.stride() == strides else values.clone().as_strided(shape, strides, 0)
    # The rest of the base is never read. In the host's memory it takes no room either.
    room = torch.empty_strided(base.size(), base.stride(), dtype=base.dtype, device=base.device)
    offset = int(own.storage_offset()) - int(base.storage_offset())
    with torch.no_grad():
        room.as_strided((extent,), (1,), offset).copy_(values)
    return room.as_strided(shape, strides, offset)


def _can_be_made_again(base: torch.Tensor, view: torch.Tensor) -> bool:
    plain = type(base) is torch.Tensor and base.layout is torch.strided
    fits = base.device.type == "cpu" or base.numel() * base.element_size() <= _MOST_BASE_BYTES
    return plain and fits and base.dtype is view.dtype


def with_tensors(value: Any, changed: Convert) -> Any:
    """The value with each tensor changed, also in containers and objects that hold tensors. What
    does not change is the same object."""
    if isinstance(value, torch.Tensor):
        return changed(value)
    if isinstance(value, dict):
        entries = {name: with_tensors(each, changed) for name, each in value.items()}
        return value if _same(entries.values(), value.values()) else _rebuilt(value, entries)
    if isinstance(value, (list, tuple)):
        parts = [with_tensors(each, changed) for each in value]
        if _same(parts, value):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    fields = attributes_of(value)
    if not fields and dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    changed_fields = {name: with_tensors(each, changed) for name, each in fields.items()}
    if _same(changed_fields.values(), fields.values()):
        return value
    record = copy.copy(value)
    for name, each in changed_fields.items():
        object.__setattr__(record, name, each)  # also of frozen ones
    return record


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors that `with_tensors` would change."""
    found: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    with_tensors(value, note)
    return found


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an object that holds tensors, as batches of a script's own class; empty for
    anything else."""
    if isinstance(value, (type, torch.nn.Module, types.ModuleType)) or callable(value):
        return {}
    fields = getattr(value, "__dict__", None)
    if not isinstance(fields, dict):
        return {}
    for each in fields.values():
        parts = each.values() if isinstance(each, dict) else each
        if not isinstance(each, (dict, list, tuple)):
            parts = (each,)
        if any(isinstance(one, torch.Tensor) for one in parts):
            return fields
    return {}


def _same(these: Iterable[Any], those: Iterable[Any]) -> bool:
    return all(this is that for this, that in zip(these, those))


def _rebuilt(original: dict[Any, Any], entries: dict[Any, Any]) -> Any:
    """A dictionary of the original's class, where that can be made of entries."""
    try:
        return type(original)(entries)
    except TypeError:
        return entries
