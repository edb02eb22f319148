"""A captured call once more: in float64, compiled, eager."""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from compilegate.job.compilers import Compiler
from compilegate.job.errors import one_sentence
from compilegate.job.machine.numerics import autocast, products_precision
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
    RandomState,
    bounded,
    free_bytes,
    megabytes,
    named_output_tensors,
    no_collectives,
    place_name,
    require_whole,
    same_layout,
    tensors_in,
    with_tensors,
)
from compilegate.job.probes.reference import (
    BUFFER,
    GRADIENT,
    INPUT_GRADIENT,
    Tensors,
    channels_last,
    exactly,
    in_float64,
    norm,
    noting,
    passes,
    wide,
)
from compilegate.job.probes.state import PreservedState, captured_modes

_Named = List[Tuple[str, torch.Tensor]]


class _OtherOutputsError(Exception):
    """The output has not as many differentiable tensors as gradients were captured for."""


class Replay:
    """Replays calls of one function. Within the context its module's state is preserved, and tensor
    hooks of its parameters are taken off: they are no part of what is compiled."""

    def __init__(self, compiled: Compiled, compiler: Compiler) -> None:
        """Raises ObstacleError for a module whose parameters lie in parts on several devices."""
        require_whole(compiled.module)
        self._function = compiled
        self._compiler = compiler
        self._module: torch.nn.Module = unwrapped(compiled.module)
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
        self._reference: Optional[_Exchanged] = None
        self._place = self._device
        self._names: Dict[int, List[str]] = {}
        """By call, the outputs that its captured gradients belong to."""
        self._drawn_in: List[torch.dtype] = []
        self.precision: Optional[str] = None
        """What the last call computed its products in; None where that does not show."""
        self.sizes: Dict[str, float] = {}
        """The norms of buffers that the last calls changed."""
        self.others_drawn: Optional[bytes] = None
        """What the generators of Python and NumPy were after the last call, where it moved them."""

    def __enter__(self) -> Replay:
        with contextlib.ExitStack() as stack:
            stack.enter_context(captured_modes(self._function))
            stack.enter_context(_without_synchronisation(self._function.module))
            self._state = PreservedState([self._function.module], parameters=False)
            stack.enter_context(self._state)
            stack.enter_context(_without_hooks([each for _, each in self._parameters]))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._reference = None
        self._stack.close()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def eager(self, call: Call) -> Tensors:
        """The function as the script wrote it."""
        self._require_precision(call)
        try:
            return self._eager_once(call)
        except _OtherOutputsError:
            self._names[id(call)] = self._differentiable(call)
            return self._eager_once(call)

    def _eager_once(self, call: Call) -> Tensors:
        self._state.restore()
        self._drawn_in = []
        with noting(self._drawn_in):
            return self._run(
                self._eager, call, self._parameters, same_layout, call.autocast.again()
            )

    def has_images(self, call: Call) -> bool:
        """Whether a parameter or an input has channels that could be last."""
        inputs = tensors_in([call.arguments, call.named])
        return any(each.dim() in (4, 5) for each in [*self._module.parameters(), *inputs])

    def eager_channels_last(self, call: Call) -> Tensors:
        """The same with images and kernels as compilers lay them out."""
        self._state.restore()
        exchanged = _Exchanged(self._module, channels_last)
        with exchanged.lent():
            return self._run(
                self._eager,
                call,
                [(name, exchanged.parameter(each)) for name, each in self._parameters],
                channels_last,
                call.autocast.again(),
            )

    def compiled(self, call: Call) -> Tensors:
        """What trains. It may compute on a device of its own."""
        self._state.restore()
        return self._run(
            self._function.compiled, call, self._parameters, same_layout, self._under(call)
        )

    def exact(self, call: Call) -> Tensors:
        """Eager in float64, without autocast: on the module's device, or else in the host's memory.
        Random numbers are those of the last eager call, which comes before.

        Raises ObstacleError where it is not to be had, and where the call draws random numbers that
        the compiler does not share; NoRoomError where memory does not suffice.
        """
        try:
            return self._exact_somewhere(call)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise ObstacleError(
                f"the step cannot be computed in float64 here: {one_sentence(error)}"
            ) from error

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
                f"eager cannot be had in {call.autocast.precision} on the {place_name(place)} with "
                f"torch {str(torch.__version__).split('+')[0]}, so there is nothing to compare "
                "the compiled step with"
            )

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
        self._state.restore()
        place = self._place
        room = self._room()
        if self._reference is None:
            self._reference = _Exchanged(self._module, lambda each: in_float64(each).to(place))
        reference = self._reference
        under = call.autocast.dtype if call.autocast.enabled else None
        with reference.lent(), exactly(self._drawn_in, self._dtype, under), no_collectives():
            tensors = self._run(
                self._eager,
                call,
                [(name, reference.parameter(each)) for name, each in self._parameters],
                lambda tensor: in_float64(tensor).to(place),
                bounded(room, f"the free memory of the {place_name(place)}"),
            )
        if _has_drawn(call.random, self._device):
            self._require_same_random_numbers()
        if reference.written():
            self._state.keep_parameters()
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
                f"{place_name(self._place)} has {megabytes(free)} of memory free"
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
                f"alone, where others are drawn than on the {place_name(self._device)}"
            )

    def _under(self, call: Call) -> ContextManager[Any]:
        """The autocast of the compiled call."""
        device = self._compiler.device(self._device)
        if device.type == self._device.type:
            return call.autocast.again()
        return autocast(call.autocast.precision, device)

    def _differentiable(self, call: Call) -> List[str]:
        """The compiled output's differentiable tensors: those that have captured gradients."""
        self._state.restore()
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
        """A forward pass in these surroundings: outputs, gradients, and how buffers changed."""
        arguments, named, inputs = _copied(call, convert)
        call.random.restore(self._device)

        def compute() -> Tensors:
            with surroundings:
                outputs = dict(_outputs(function(*arguments, **named)))
            after = RandomState.now(self._device).others
            self.others_drawn = after if after != call.random.others else None
            self.precision = products_precision(outputs.values())
            return outputs

        def buffers() -> Tensors:
            return {BUFFER + name: each for name, each in self._module.named_buffers()}

        wanted = {GRADIENT + name: each for name, each in parameters}
        wanted.update(inputs)
        with torch.enable_grad():
            found = passes(compute, buffers, lambda outputs: self._starts(call, outputs), wanted)
        self.sizes.update(
            {name: norm(wide(each)) for name, each in buffers().items() if name in found}
        )
        return found

    def _starts(self, call: Call, outputs: Tensors) -> List[Tuple[torch.Tensor, torch.Tensor]]:
        """The outputs that gradients came back to, with those."""
        differentiable = {name: each for name, each in outputs.items() if each.requires_grad}
        if all(each is None for each in call.cotangents):
            return []
        names = self._names.get(id(call))
        if names is None:
            if len(differentiable) != len(call.cotangents):
                raise _OtherOutputsError
            names = self._names[id(call)] = list(differentiable)
        came = dict(zip(names, call.cotangents))
        starts: List[Tuple[torch.Tensor, torch.Tensor]] = []
        for name, output in differentiable.items():
            # What the compiled output cuts off had no gradient to capture: any will show that.
            one = came.get(name) if name in came else torch.ones_like(output)
            if one is not None and one.shape == output.shape:
                starts.append((output, one.to(output.device, output.dtype)))
        return starts


class _Exchanged:
    """A module's tensors, converted, to be lent to it for the time of a call. So a function that
    uses the module computes with others, also with tied weights, and with tensors that are no
    parameters; nothing but tensors has to be copied."""

    def __init__(self, module: torch.nn.Module, convert: Convert) -> None:
        self._module, self._convert = module, convert
        self._made: Dict[int, Tuple[torch.Tensor, torch.Tensor]] = {
            id(each): (each, self._converted(each)) for each in module.parameters()
        }

    def parameter(self, own: torch.Tensor) -> torch.Tensor:
        """The one that stands for a parameter of the module."""
        return self._made[id(own)][1]

    def written(self) -> bool:
        """Whether a call has written into a parameter."""
        return any(each._version > 0 for _, each in self._made.values())

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Exchange the module's tensors. Buffers start from their own values each time.

        Whoever enters puts back attributes that the call sets itself; see `PreservedState`.
        """
        made = dict(self._made)

        def exchange(tensor: torch.Tensor) -> torch.Tensor:
            if id(tensor) not in made:
                made[id(tensor)] = tensor, self._converted(tensor)
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

    def _converted(self, tensor: torch.Tensor) -> torch.Tensor:
        converted = self._convert(tensor)
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(converted, requires_grad=tensor.requires_grad)
        return converted


_TABLES = frozenset(vars(torch.nn.Module()))
"""The attributes in which torch itself keeps parameters, hooks and the like."""


@contextlib.contextmanager
def _without_synchronisation(module: torch.nn.Module) -> Iterator[None]:
    """Have DistributedDataParallel neither send buffers nor expect gradients."""
    switches = ("require_backward_grad_sync", "require_forward_param_sync")
    before = {name: getattr(module, name) for name in switches if name in vars(module)}
    vars(module).update(dict.fromkeys(before, False))
    try:
        yield
    finally:
        vars(module).update(before)


@contextlib.contextmanager
def _without_hooks(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Take off what a script has called with the gradients of these tensors: it may count."""
    before: List[Tuple[Any, Any]] = [(each, each._backward_hooks) for each in tensors]
    try:
        for each, hooks in before:
            if hooks:
                each._backward_hooks = None
        yield
    finally:
        for each, hooks in before:
            if hooks:
                each._backward_hooks = hooks


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


def _has_drawn(before: RandomState, device: torch.device) -> bool:
    """Whether torch's random numbers were drawn since the generators were in that state."""
    now = RandomState.now(device)
    return not torch.equal(now.host, before.host) or (
        now.device is not None
        and before.device is not None
        and not torch.equal(now.device, before.device)
    )
