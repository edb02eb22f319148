"""The state of a training, preserved: afterwards it is, bit for bit, what it was.

    with PreservedState(modules, optimizers, inputs=calls) as state:
        ...              # take steps; weights, buffers and the optimizers' state change
        state.restore()  # as they were on entering

Tensors are restored in place, since compiled code holds their addresses; unchanged ones are not
written to, since dynamo's guards look at modules.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from typing import Any, Callable, Iterator, Sequence

import torch

from compilegate.job.machine.memory import free_memory
from compilegate.job.machine.numerics import Generators, restoring
from compilegate.job.probes.capture import Compiled, NoRoomError, attributes_of, megabytes

_Restore = Callable[[], None]

_STEP_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
_STEP_HOOKS_OF_ALL = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
"""Where torch keeps what a script has called around an optimizer's steps: for one, for all."""


class PreservedState:
    """A context in which modules and optimizers may be called and trained without effect on the
    training.

    Kept are the modules' attributes, parameters, buffers and gradients, the optimizers' state, the
    tensors of `inputs` and the random generators. Gradients are set aside, and hooks around
    optimizer steps taken off, since scripts count or average in them.
    """

    def __init__(
        self,
        modules: Sequence[torch.nn.Module],
        optimizers: Sequence[torch.optim.Optimizer] = (),
        inputs: Any = (),
        *,
        parameters: bool = True,
    ) -> None:
        """Without `parameters`, nobody may write into them, and no copies are made."""
        self._modules = list({id(each): each for one in modules for each in one.modules()}.values())
        self._optimizers = list(optimizers)
        self._inputs = inputs
        self._parameters = parameters
        self._originals: dict[int, torch.Tensor] = {}
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._structures: list[_Restore] = []

    @property
    def devices(self) -> list[torch.device]:
        return list(dict.fromkeys(each.device for each in self._originals.values()))

    @property
    def leaves(self) -> list[torch.Tensor]:
        """Every tensor to which a backward pass may bring a gradient, each once."""
        return [each for each in self._originals.values() if each.is_leaf and each.requires_grad]

    def __enter__(self) -> PreservedState:
        with contextlib.ExitStack() as surroundings:
            for hooks in _step_hooks(self._optimizers):
                surroundings.callback(hooks.update, dict(hooks))
                surroundings.callback(hooks.clear)
                hooks.clear()
            seen: set[int] = set()
            for each in [*self._modules, *self._optimizers]:
                self._keep(vars(each), seen)
            self._keep(self._inputs, seen)
            self._generators = Generators()
            self._copy()
            for each in self.leaves:
                surroundings.callback(setattr, each, "grad", each.grad)
                each.grad = None
            self._surroundings = surroundings.pop_all()
        return self

    def __exit__(self, *_raised: object) -> None:
        with self._surroundings:
            try:
                self.restore()
            except Exception:  # noqa: BLE001 - no memory for a moment
                self.restore()

    def restore(self) -> None:
        """Everything but gradients as it was on entering."""
        for restore in self._structures:
            restore()
        with torch.no_grad():
            for original, copy in self._copies:
                # Of NaN, which is unequal to itself, once too often.
                if original.device != copy.device or not torch.equal(original, copy):
                    original.copy_(copy)
        self._generators.restore()

    def keep_parameters(self) -> None:
        """Have parameters put back as well: the forward pass writes into its own."""
        if not self._parameters:
            self._parameters = True
            self._copy()

    def _keep(self, value: Any, seen: set[int]) -> None:
        """Collect the tensors and generators of a nest, and how its containers are restored."""
        if isinstance(value, torch.Tensor):
            self._originals[id(value)] = value
            return
        if id(value) in seen:
            return
        generator = restoring(value)
        if generator is not None:
            self._structures.append(generator)
            return
        if not isinstance(value, (dict, list, tuple, set, deque)):
            value = attributes_of(value)
            if not value:
                return
        seen.add(id(value))
        if not isinstance(value, tuple):
            self._structures.append(_restoring_container(value))
        for each in [*(value.values() if isinstance(value, dict) else value)]:
            self._keep(each, seen)

    def _copy(self) -> None:
        """Copy to the host where the device has too little room. Raises NoRoomError where the host
        has too little."""
        tensors = [
            each
            for each in self._originals.values()
            if each.is_leaf and (self._parameters or not each.requires_grad) and not _overlaps(each)
        ]
        roomy = {device: _has_room(device, tensors) for device in self.devices}
        on_host = [each for each in tensors if each.device.type == "cpu" or not roomy[each.device]]
        needed, free = sum(map(_size, on_host)), free_memory()
        if free is not None and 2 * needed > free:
            raise NoRoomError(
                "the memory is too small for the probe: a copy of weights and optimizers takes "
                f"{megabytes(needed)}, and {megabytes(free)} are free"
            )
        self._copies = [
            (each, each.detach().clone() if roomy[each.device] else each.detach().cpu())
            for each in tensors
        ]


@contextlib.contextmanager
def captured_modes(compiled: Compiled) -> Iterator[None]:
    """Have every submodule in the mode of the captured calls: compiled code is for one mode."""
    with contextlib.ExitStack() as stack:
        for name, each in compiled.module.named_modules():
            mode = compiled.training.get(name, each.training)
            if each.training != mode:
                stack.callback(setattr, each, "training", each.training)
                each.training = mode
        yield


def _has_room(device: torch.device, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether copies leave half of the device's free memory free: a step needs some as well."""
    if device.type != "cuda":
        return True
    needed = sum(_size(each) for each in tensors if each.device == device)
    return 2 * needed < torch.cuda.mem_get_info(device)[0]


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether several elements are one place in memory, as expand makes them: nobody can write
    there."""
    if tensor.layout != torch.strided:
        return False
    return any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride()))


def _restoring_container(value: Any) -> _Restore:
    held: Any = dict(value) if isinstance(value, dict) else list(value)

    def restore() -> None:
        if isinstance(value, dict):
            for name in [name for name in value if name not in held]:
                del value[name]
            for name, each in held.items():
                if value.get(name, held) is not each:
                    value[name] = each
        if [*map(id, value)] != [*map(id, held)]:  # what is held may be tensors, never equal
            value.clear()
            (value.update if isinstance(value, (dict, set)) else value.extend)(held)

    return restore


def _step_hooks(optimizers: Sequence[torch.optim.Optimizer]) -> list[dict[Any, Any]]:
    """Torch before 2.0 has none for all optimizers, and before 1.14 none at all."""
    module = sys.modules[torch.optim.Optimizer.__module__]  # torch.optim deletes its name
    places = [
        *(getattr(each, name, None) for each in optimizers for name in _STEP_HOOKS),
        *(getattr(module, name, None) for name in _STEP_HOOKS_OF_ALL),
    ]
    return [each for each in places if each is not None]
