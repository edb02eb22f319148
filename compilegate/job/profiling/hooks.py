"""Listens to torch: when a loader is asked for a batch, when the model is called, when gradients
are computed, when weights change. Works for any loop that is built of these."""

from __future__ import annotations

import functools
import gc
from typing import Any, Callable, List, Optional

import torch

from compilegate.job.profiling.record import BACKWARD, DATA, FORWARD, OTHER, UPDATE
from compilegate.job.profiling.stopwatch import Stopwatch


class Hooks:
    """Keeps a stopwatch's phase while a loop trains."""

    def __init__(
        self,
        watch: Stopwatch,
        *,
        updated: Callable[[Any], None],
        called: Callable[[Any, Any, Any], None],
    ) -> None:
        """`updated` is called after an optimizer's step; `called` is given each model that is
        called in a training step, with its arguments."""
        self._watch = watch
        self._updated = updated
        self._called = called
        self._evaluating = False
        self._forward_seen = False
        self.optimizers: List[torch.optim.Optimizer] = []
        self.roots: List[torch.nn.Module] = []
        """Modules that hold what the optimizers change, and that no other such module holds."""

    def install(self) -> None:
        """Listen from here on, to the end of the process."""
        from torch.optim import optimizer  # noqa: PLC0415
        from torch.utils.data import dataloader  # noqa: PLC0415

        iterator: Any = dataloader._BaseDataLoaderIter
        iterator.__next__ = self._within(iterator.__next__, self._fetching)
        autograd: Any = torch.autograd
        torch.Tensor.backward = self._within(  # pyrefly: ignore[method-assign]
            torch.Tensor.backward, lambda: BACKWARD
        )
        for name in ("backward", "grad"):
            setattr(autograd, name, self._within(getattr(autograd, name), lambda: BACKWARD))
        optimizer.register_optimizer_step_pre_hook(self._before_update)
        optimizer.register_optimizer_step_post_hook(self._after_update)
        torch.optim.Optimizer.zero_grad = self._within(  # pyrefly: ignore[method-assign]
            torch.optim.Optimizer.zero_grad, lambda: UPDATE
        )

    def fetching(self) -> None:
        """The step waits for its batch."""
        self._watch.enter(self._fetching())
        self._forward_seen = False

    def fetched(self) -> None:
        """It has it."""
        self._watch.enter(OTHER)

    def _fetching(self) -> str:
        return OTHER if self._evaluating else DATA

    def _within(self, function: Callable[..., Any], phase: Callable[[], str]) -> Callable[..., Any]:
        watch = self._watch

        @functools.wraps(function)
        def phased(*arguments: Any, **named: Any) -> Any:
            now = phase()
            if watch.phase == now:  # within itself: a loader of loaders, autograd.backward
                return function(*arguments, **named)
            if now == BACKWARD:
                self._settle_forward()
            before = watch.enter(now)
            try:
                return function(*arguments, **named)
            finally:
                # What follows gradients changes weights: clipping, averaging, the update itself.
                watch.enter({DATA: OTHER, BACKWARD: UPDATE}.get(now, before))
                if now == DATA:
                    self._forward_seen = False

        return phased

    def _settle_forward(self) -> None:
        if not self._forward_seen and self._watch.phase in (OTHER, UPDATE):
            self._watch.unclear_was_forward()
        self._forward_seen = False

    def _before_update(self, optimizer: Any, *_: Any) -> None:
        if not any(each is optimizer for each in self.optimizers):
            self.optimizers.append(optimizer)
            self._find_roots()
        self._watch.enter(UPDATE)

    def _after_update(self, optimizer: Any, *_: Any) -> None:
        self._watch.enter(OTHER)
        self._forward_seen = False
        self._updated(optimizer)

    def _find_roots(self) -> None:
        changed = {
            id(each)
            for optimizer in self.optimizers
            for group in optimizer.param_groups
            for each in group["params"]
        }
        holders = [
            each
            for each in gc.get_objects()
            if _is_module(each) and any(id(one) in changed for one in each.parameters())
        ]
        held = {id(part) for each in holders for part in each.modules() if part is not each}
        known = {id(each) for each in self.roots}
        for each in holders:
            if id(each) not in held and id(each) not in known:
                self.roots.append(each)
                self._listen(each)

    def _listen(self, root: torch.nn.Module) -> None:
        if getattr(root, "_compiled_call_impl", None) is not None:
            return  # a hook of its would be compiled with it
        try:
            root.register_forward_pre_hook(self._before_model, with_kwargs=True)
        except TypeError:  # torch 1
            root.register_forward_pre_hook(
                lambda module, arguments: self._before_model(module, arguments, {})
            )

    def _before_model(self, module: Any, arguments: Any, named: Any) -> None:
        self._evaluating = not torch.is_grad_enabled()
        if self._evaluating:
            self._watch.enter(OTHER)
            return
        if self._watch.phase != FORWARD:
            self._watch.enter(FORWARD)
        self._forward_seen = True
        self._called(module, arguments, named)


def _is_module(value: Any) -> bool:
    # By its type alone: to ask anything else of any object there is may run its code.
    return issubclass(type(value), torch.nn.Module) and "_parameters" in vars(value)


def weights_of(optimizers: List[torch.optim.Optimizer]) -> List[Any]:
    """What they change."""
    return [
        each
        for optimizer in optimizers
        for group in optimizer.param_groups
        for each in group["params"]
    ]


def device_of(optimizers: List[torch.optim.Optimizer]) -> Optional[torch.device]:
    """Where most of it is."""
    weights = weights_of(optimizers)
    return weights[0].device if weights else None
