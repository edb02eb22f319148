"""Replaying a call leaves traces: buffers, counters, caches, random numbers. Here they go."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Tuple

import torch

from compilegate.job.machine.generators import Generators


class Snapshot:
    """What of modules and generators a call can change, to be put back as often as wanted."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._generators = Generators()
        self._modules = [_ModuleState(each) for each in module.modules()]
        self._parameters: List[Tuple[torch.Tensor, torch.Tensor]] = []

    def keep_parameters(self, module: torch.nn.Module) -> None:
        """Have parameters put back as well: this module's forward pass writes into its own."""
        self._parameters = [(each, each.detach().clone()) for each in module.parameters()]

    def restore(self) -> None:
        """Make everything as it was."""
        self._generators.restore()
        for each in self._modules:
            each.restore()
        with torch.no_grad():
            for parameter, value in self._parameters:
                parameter.copy_(value)


class _ModuleState:
    """The attributes of one module, with the values of those that can change within."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._attributes = dict(vars(module))
        self._contents = {
            name: each.copy()
            for name, each in self._attributes.items()
            if isinstance(each, (list, dict, set))  # _parameters and _buffers among them
        }
        tensors = [*self._attributes.values(), *module._buffers.values()]
        self._values = [
            (each, each.detach().clone())
            for each in tensors
            if isinstance(each, torch.Tensor) and each.is_leaf and not each.requires_grad
        ]

    def restore(self) -> None:
        now = vars(self._module)
        for name in [name for name in now if name not in self._attributes]:
            del now[name]
        for name, each in self._attributes.items():
            if now.get(name, now) is not each:
                now[name] = each
        for name, content in self._contents.items():
            _refill(now[name], content)
        with torch.no_grad():
            for tensor, value in self._values:
                if not _same(tensor, value):
                    tensor.copy_(value)


def _refill(container: Any, content: Any) -> None:
    """Give a container its content back; one that still has it is not touched."""
    if isinstance(container, dict):
        same = list(container) == list(content) and all(
            container[name] is each for name, each in content.items()
        )
    elif isinstance(container, list):
        same = len(container) == len(content) and all(
            now is each for now, each in zip(container, content)
        )
    else:
        same = container == content
    if same:
        return
    container.clear()
    if isinstance(container, list):
        container.extend(content)
    else:
        container.update(content)


def _same(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether nothing has changed. NaN is unequal to itself, and is put back for nothing."""
    if tensor.shape != value.shape or tensor.device != value.device:
        return False
    return bool(torch.equal(tensor, value))


class TrainingFlags:
    """Which modules were in training mode in the captured calls: made so, and put back."""

    def __init__(self, module: torch.nn.Module, training: Optional[Mapping[str, bool]]) -> None:
        self._before = [(each, each.training) for each in module.modules()]
        for name, each in module.named_modules():
            wanted = (training or {}).get(name)
            if wanted is not None and each.training != wanted:
                each.training = wanted

    def restore(self) -> None:
        """As they were."""
        for module, training in self._before:
            if module.training != training:
                module.training = training
