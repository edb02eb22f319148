"""Lending a training's state to a measurement: afterwards all of it is, bit for bit, what it was.

    with Lent(modules, optimizers, inputs=calls) as lent:
        ...             # take steps; weights, buffers and the optimizers' state change
        lent.restore()  # as they were when lent
        ...

Tensors are restored in place: what was compiled for them, or captured as a CUDA graph, holds them
by their address.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence, Set, Tuple

import torch

from compilegate.job.machine.generators import Generators
from compilegate.job.probes.exact import NoRoomError, free_bytes, megabytes

_Restore = Callable[[], None]

_STEP_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
_STEP_HOOKS_OF_ALL = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
"""Where torch keeps what a script has called around an optimizer's steps: for one, for all."""


class Lent:
    """A context in which modules and optimizers may be trained, as if it had never been.

    Kept are parameters, buffers, gradients and training modes of the modules, all that the
    optimizers hold, the tensors of `inputs` (any nest of lists, tuples and dictionaries), and the
    random generators of torch, NumPy and Python. On entering, gradients are set aside and the hooks
    around optimizer steps are taken off, since a script counts or averages in them.
    """

    def __init__(
        self,
        modules: Sequence[torch.nn.Module],
        optimizers: Sequence[torch.optim.Optimizer],
        inputs: Any = (),
    ) -> None:
        self._modules = _submodules(modules)
        self._optimizers = list(optimizers)
        self._inputs = inputs
        self._surroundings = contextlib.ExitStack()
        self._values = _Values()
        self._structures: List[_Restore] = []

    @property
    def devices(self) -> List[torch.device]:
        """Where the tensors are."""
        return self._values.devices

    @property
    def leaves(self) -> List[torch.Tensor]:
        """Every tensor to which a backward pass may bring a gradient, each once."""
        return [each for each in self._values.originals if each.is_leaf and each.requires_grad]

    def __enter__(self) -> Lent:
        with contextlib.ExitStack() as surroundings:
            surroundings.enter_context(_without_step_hooks(self._optimizers))
            for module in self._modules:
                self._keep(module._parameters)
                self._keep(module._buffers)
            for optimizer in self._optimizers:
                self._keep(vars(optimizer))
            self._keep(self._inputs)
            self._values.copy()
            self._generators = Generators()
            modes = [(module, module.training) for module in self._modules]
            gradients = [(each, each.grad) for each in self.leaves]
            surroundings.callback(_set_back, modes, gradients)
            for each, _ in gradients:
                each.grad = None
            self._surroundings = surroundings.pop_all()
        return self

    def __exit__(self, *_raised: object) -> None:
        try:
            self.restore()
        finally:
            self._surroundings.close()

    def restore(self) -> None:
        """Everything but gradients and modes as it was when lent."""
        for restore in self._structures:
            restore()
        self._values.restore()
        self._generators.restore()

    def _keep(self, structure: Any) -> None:
        _keep(structure, self._values, self._structures, set())


class _Values:
    """Tensors and their copies: on their own device where there is room, else in the host's
    memory."""

    def __init__(self) -> None:
        self._originals: Dict[int, torch.Tensor] = {}
        self._copies: List[Tuple[torch.Tensor, torch.Tensor]] = []

    @property
    def originals(self) -> List[torch.Tensor]:
        return list(self._originals.values())

    @property
    def devices(self) -> List[torch.device]:
        return list(dict.fromkeys(each.device for each in self._originals.values()))

    def add(self, tensor: torch.Tensor) -> None:
        self._originals[id(tensor)] = tensor

    def copy(self) -> None:
        """Raises NoRoomError where there is no memory for the copies: the system would end the
        process."""
        tensors = [each for each in self._originals.values() if not _lies_on_itself(each)]
        roomy = {device: self._has_room(device) for device in self.devices}
        on_host = [each for each in tensors if each.device.type == "cpu" or not roomy[each.device]]
        needed, free = sum(map(_size, on_host)), free_bytes(torch.device("cpu"))
        if 2 * needed > free:
            raise NoRoomError(
                "the memory is too small for the speed probe: a copy of weights and optimizers "
                f"takes {megabytes(needed)}, and {megabytes(free)} are free"
            )
        self._copies = [
            (each, each.detach().clone() if roomy[each.device] else each.detach().cpu())
            for each in tensors
        ]

    def restore(self) -> None:
        with torch.no_grad():
            for original, copy in self._copies:
                original.copy_(copy)

    def _has_room(self, device: torch.device) -> bool:
        """Whether copies leave half of the device's free memory free: a step needs some as well."""
        if device.type != "cuda":
            return True
        needed = sum(_size(each) for each in self._originals.values() if each.device == device)
        return 2 * needed < torch.cuda.mem_get_info(device)[0]


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _lies_on_itself(tensor: torch.Tensor) -> bool:
    """Whether several of its elements are one place in memory, as expand makes them: nobody can
    write into it."""
    if tensor.layout != torch.strided:
        return False
    return any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride()))


def _keep(value: Any, values: _Values, restores: List[_Restore], seen: Set[int]) -> None:
    """Collect the tensors of a nest, and how its containers get back what they held."""
    if isinstance(value, torch.Tensor):
        values.add(value)
        return
    if id(value) in seen or not isinstance(value, (dict, list, tuple, deque)):
        return
    seen.add(id(value))
    if isinstance(value, dict):
        restores.append(_restoring_dictionary(value))
        parts: Iterable[Any] = value.values()
    else:
        if not isinstance(value, tuple):
            restores.append(_restoring_sequence(value))
        parts = value
    for each in list(parts):
        _keep(each, values, restores, seen)


def _restoring_dictionary(value: Dict[Any, Any]) -> _Restore:
    held = list(value.items())

    def restore() -> None:
        now = list(value.items())
        # Untouched ones stay untouched: to write into a module's costs what is compiled its guards.
        if len(now) != len(held) or any(
            ours[0] is not theirs[0] or ours[1] is not theirs[1] for ours, theirs in zip(held, now)
        ):
            value.clear()
            value.update(held)

    return restore


def _restoring_sequence(value: Any) -> _Restore:
    held = list(value)

    def restore() -> None:
        if len(value) != len(held) or any(ours is not now for ours, now in zip(held, value)):
            value.clear()
            value.extend(held)

    return restore


def _submodules(modules: Sequence[torch.nn.Module]) -> List[torch.nn.Module]:
    """The modules with all that they are made of, each once."""
    distinct = {id(each): each for module in modules for each in module.modules()}
    return list(distinct.values())


def _set_back(
    modes: List[Tuple[torch.nn.Module, bool]], gradients: List[Tuple[torch.Tensor, Any]]
) -> None:
    for module, training in modes:
        if module.training != training:
            module.training = training
    for each, gradient in gradients:
        each.grad = gradient


@contextlib.contextmanager
def _without_step_hooks(optimizers: Sequence[torch.optim.Optimizer]) -> Iterator[None]:
    """Torch before 2.0 has none for all optimizers, and before 1.14 none at all."""
    module = sys.modules[torch.optim.Optimizer.__module__]  # torch.optim deletes its name
    places = [
        *(getattr(each, name, None) for each in optimizers for name in _STEP_HOOKS),
        *(getattr(module, name, None) for name in _STEP_HOOKS_OF_ALL),
    ]
    hooks = [each for each in places if each is not None]
    held = [list(each.items()) for each in hooks]
    for each in hooks:
        each.clear()
    try:
        yield
    finally:
        for each, entries in zip(hooks, held):
            each.clear()
            each.update(entries)
