"""A captured call once more: in float64, compiled, eager."""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager, Iterator, List, NamedTuple, Sequence, Tuple

import torch

from compilegate.job.compilers import Compiler
from compilegate.job.errors import one_sentence
from compilegate.job.machine.memory import free_memory
from compilegate.job.machine.numerics import Generators, autocast, products_precision
from compilegate.job.machine.world import unwrapped
from compilegate.job.probes.capture import (
    Autocast,
    Call,
    Compiled,
    Convert,
    Copies,
    Forward,
    NoRoomError,
    ObstacleError,
    megabytes,
    named_output_tensors,
    same_layout,
    with_tensors,
)
from compilegate.job.probes.reference import (
    BUFFER,
    GRADIENT,
    INPUT_GRADIENT,
    Draw,
    DrawRecorder,
    DrawReplay,
    Tensors,
    channels_last,
    exactly,
    in_float64,
    in_turn,
    norm,
    passes,
    wide,
)
from compilegate.job.probes.state import PreservedState, captured_modes

_Named = List[Tuple[str, torch.Tensor]]
_SYNCHRONISES = ("require_backward_grad_sync", "require_forward_param_sync")
"""Attributes by which DistributedDataParallel sends buffers and expects gradients."""


class Replayed(NamedTuple):
    tensors: Tensors  # outputs, gradients, and how buffers changed
    sizes: dict[str, float]  # the norms of the buffers that changed
    precision: str | None  # what it computed its products in; None where that does not show
    others: bytes  # what the generators of Python and NumPy were afterwards


class Replay:
    """Replays calls of one function. Within the context its module's state is preserved, and hooks
    of its parameters are off."""

    def __init__(self, compiled: Compiled, compiler: Compiler) -> None:
        """Raises ObstacleError for a module whose parameters lie on several devices."""
        self._function = compiled
        self._compiler = compiler
        self._module: torch.nn.Module = unwrapped(compiled.module)
        places = sorted({str(each.device) for each in self._module.parameters()})
        if len(places) > 1:
            raise ObstacleError(
                f"the parameters lie on several devices ({', '.join(places)}), and the probe needs "
                "them on one"
            )
        self._eager: Forward = compiled.eager
        if getattr(compiled.eager, "__self__", None) is compiled.module is not self._module:
            self._eager = self._module.forward
        self._device = compiled.device
        floating = [each for each in self._module.parameters() if each.is_floating_point()]
        self._dtype = floating[0].dtype if floating else torch.float32
        self._parameters = [
            (name, each) for name, each in self._module.named_parameters() if each.requires_grad
        ]
        self._reference: _ConvertedTensors | None = None
        self._place = self._device  # where float64 is computed
        self._drawn: list[Draw] = []

    def __enter__(self) -> Replay:
        with contextlib.ExitStack() as stack:
            stack.enter_context(captured_modes(self._function))
            wrapper = vars(self._function.module)
            switches = {name: wrapper[name] for name in _SYNCHRONISES if name in wrapper}
            stack.callback(wrapper.update, switches)
            wrapper.update(dict.fromkeys(switches, False))
            self._state = PreservedState([self._function.module], parameters=False)
            stack.enter_context(self._state)
            for _, each in self._parameters:
                if each._backward_hooks:
                    stack.callback(setattr, each, "_backward_hooks", each._backward_hooks)
                    each._backward_hooks = None
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._reference = None
        self._stack.close()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def eager(self, call: Call) -> Replayed:
        """The function as the script wrote it."""
        _require_precision(call.autocast)
        self._state.restore()
        self._drawn = []
        with DrawRecorder(self._drawn):
            return self._run(
                self._eager, call, self._parameters, same_layout, call.autocast.again()
            )

    def eager_reordered(self, call: Call) -> Replayed:
        """The last eager call as compilers may order it: sums in turn, channels last."""
        self._state.restore()
        exchanged = _ConvertedTensors(self._module, _images_channels_last)
        with exchanged.exchanged(), in_turn(), DrawReplay(self._drawn):
            parameters = exchanged.named(self._parameters)
            return self._run(self._eager, call, parameters, channels_last, call.autocast.again())

    def compiled(self, call: Call) -> Replayed:
        """What trains, on the compiler's own device where it has one."""
        device = self._compiler.device(self._device)
        self._state.restore()
        function = self._function.compiled
        if device.type == self._device.type:
            return self._run(function, call, self._parameters, same_layout, call.autocast.again())

        def there(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.detach().to(device)

        moved = _ConvertedTensors(self._module, there)
        around = autocast(call.autocast.precision, device)
        with moved.exchanged():
            found = self._run(function, call, moved.named(self._parameters), there, around)
        here = {name: each.to(self._device) for name, each in found.tensors.items()}
        return found._replace(tensors=here)

    def exact(self, call: Call) -> Replayed:
        """Eager in float64, on the module's device or else the host, with the random numbers of the
        last eager call.

        Raises ObstacleError where float64 is not to be had or the compiler draws other random
        numbers; NoRoomError for lack of memory.
        """
        host = torch.device("cpu")
        try:
            try:
                return self._exact(call)
            except (NoRoomError, torch.cuda.OutOfMemoryError):
                if self._place == host:
                    raise
            # Outside of the handler: the error holds the frames, and they hold the tensors.
            self._reference, self._place = None, host
            torch.cuda.empty_cache()
            return self._exact(call)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise ObstacleError(
                f"the step cannot be computed in float64 here: {one_sentence(error)}"
            ) from error

    def _exact(self, call: Call) -> Replayed:
        self._state.restore()
        place, room = self._place, self._room()
        if self._reference is None:
            self._reference = _ConvertedTensors(
                self._module, lambda each: in_float64(each).to(place)
            )
        reference = self._reference
        under = call.autocast.dtype if call.autocast.enabled else None
        with reference.exchanged(), exactly(self._drawn, self._dtype, under), _no_collectives():
            found = self._run(
                self._eager,
                call,
                reference.named(self._parameters),
                lambda tensor: in_float64(tensor).to(place),
                _bounded(room, f"the free memory of the {_place_name(place)}"),
            )
        if call.random.have_moved():
            self._require_same_random_numbers()
        if reference.written():
            self._state.keep_parameters()
            self._reference = None
        return found

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
                f"{_place_name(self._place)} has {megabytes(free)} of memory free"
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
                f"alone, where others are drawn than on the {_place_name(self._device)}"
            )

    def _run(
        self,
        function: Forward,
        call: Call,
        parameters: _Named,
        convert: Convert,
        surroundings: ContextManager[Any],
    ) -> Replayed:
        arguments, named, inputs = _copied(call, convert)
        call.random.restore()
        paths: dict[str, str] = {}
        precision: str | None = None
        others = b""

        def compute() -> Tensors:
            nonlocal precision, others
            with surroundings:
                returned = named_output_tensors(function(*arguments, **named))
            others = Generators().others
            precision = products_precision(each for _, each in returned)
            titles = _titles(returned)
            paths.update(zip(titles, (path for path, _ in returned)))
            return dict(zip(titles, (each for _, each in returned)))

        def buffers() -> Tensors:
            self._compiler.execute()  # in one graph, where steps are traced
            own = self._module.named_buffers()
            return {BUFFER + name: each.to(self._device) for name, each in own}

        def starts(outputs: Tensors) -> list[tuple[torch.Tensor, torch.Tensor]]:
            if all(each is None for each in call.cotangents.values()):
                return []
            found = []
            for title, output in outputs.items():
                if output.requires_grad:
                    # What compiled code cut off had no gradient to capture: any will show that.
                    came = call.cotangents.get(paths[title], torch.ones_like(output))
                    if came is not None and came.shape == output.shape:
                        found.append((output, came.to(output.device, output.dtype)))
            return found

        wanted = {GRADIENT + name: each for name, each in parameters}
        with torch.enable_grad():
            found = passes(compute, buffers, starts, {**wanted, **dict(inputs)})
        sizes = {name: norm(wide(each)) for name, each in buffers().items() if name in found}
        return Replayed(found, sizes, precision, others)


def _images_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """A channels-last copy of an image or kernel; any other tensor itself, to save memory."""
    return channels_last(tensor) if tensor.dim() in (4, 5) else tensor


class _ConvertedTensors:
    """A module's tensors, converted, and given to it for the time of a call: so functions that use
    the module compute with others, tied weights included."""

    def __init__(self, module: torch.nn.Module, convert: Convert) -> None:
        self._module, self._convert = module, convert
        self._made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {
            id(each): (each, self._converted(each)) for each in module.parameters()
        }

    def named(self, parameters: Sequence[tuple[str, torch.Tensor]]) -> _Named:
        """Those that stand for parameters of the module."""
        return [(name, self._made[id(each)][1]) for name, each in parameters]

    def written(self) -> bool:
        return any(each._version > 0 for _, each in self._made.values())

    @contextlib.contextmanager
    def exchanged(self) -> Iterator[None]:
        """Exchange the module's tensors. Buffers start from their own values each time."""
        made = dict(self._made)

        def exchange(tensor: torch.Tensor) -> torch.Tensor:
            if id(tensor) not in made:
                made[id(tensor)] = tensor, self._converted(tensor)
            return made[id(tensor)][1]

        with contextlib.ExitStack() as stack:
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
                    stack.callback(table.update, {name: table[name] for name in new})
                    table.update(new)
            yield

    def _converted(self, tensor: torch.Tensor) -> torch.Tensor:
        converted = self._convert(tensor)
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(converted, requires_grad=tensor.requires_grad)
        return converted


_TABLES = frozenset(vars(torch.nn.Module()))
"""The attributes in which torch itself keeps parameters, hooks and the like."""


def _require_precision(captured: Autocast) -> None:
    """Raise ObstacleError where torch has no eager in a call's precision, as fp16 on a CPU before
    2.3."""
    place = torch.device(captured.device_type)
    try:
        with captured.again():
            now = Autocast.now(place).precision
    except RuntimeError:
        now = "nothing"
    if now != captured.precision:
        raise ObstacleError(
            f"eager cannot be had in {captured.precision} on the {_place_name(place)} with torch "
            f"{str(torch.__version__).split('+')[0]}, so there is nothing to compare the compiled "
            "step with"
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


@contextlib.contextmanager
def _bounded(most_bytes: int, what: str) -> Iterator[None]:
    """Raise NoRoomError when a forward pass keeps more for its backward pass than is free."""
    storages: set[int] = set()
    held = 0

    def count(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal held
        key = tensor.data_ptr() if tensor.layout is torch.strided else id(tensor)
        if key not in storages:
            storages.add(key)
            held += tensor.numel() * tensor.element_size()
        if held > most_bytes:
            raise NoRoomError(
                f"{what} is too small: float64 has to keep more than {megabytes(held)} between its "
                f"forward and backward pass, and {megabytes(most_bytes)} are left for that"
            )
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        yield


def free_bytes(device: torch.device) -> int:
    """How much memory could be allocated on a device or in the host, large where unknown."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + int(unused)
    free = free_memory()
    return 1 << 62 if free is None else free


def _place_name(device: torch.device) -> str:
    return {"cuda": "GPU", "cpu": "host"}.get(device.type, device.type)


def _copied(call: Call, convert: Convert) -> tuple[Any, Any, _Named]:
    copies = Copies(convert)
    arguments = [with_tensors(each, copies) for each in call.arguments]
    named = {name: with_tensors(each, copies) for name, each in call.named.items()}
    inputs: dict[int, tuple[str, torch.Tensor]] = {}
    for name, each in named_output_tensors({**dict(enumerate(arguments)), **named}):
        if each.requires_grad:
            inputs.setdefault(id(each), (INPUT_GRADIENT + name, each))
    return arguments, named, list(inputs.values())


def _titles(outputs: _Named) -> list[str]:
    """Names of an output's tensors: `loss` for its one number, `output.PATH` for the others."""
    numbers = [path for path, each in outputs if each.dim() == 0]
    if len(numbers) > 1:
        numbers = [path for path in numbers if path.rpartition(".")[2] == "loss"]
    titles = {path: f"output.{path}" if path else "output" for path, _ in outputs}
    titles.update(dict.fromkeys(numbers[:1], "loss"))
    return [titles[path] for path, _ in outputs]
