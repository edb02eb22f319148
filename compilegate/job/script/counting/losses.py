"""The losses of a script's steps: what it calls `backward` on, read without holding up a GPU.

A loss on a GPU or an XLA device is a promise. To ask for its value in every step is a round trip,
during which nothing else is started. So values are fetched every `log_every` steps, and looked at
when they have arrived.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Protocol, Sequence, Tuple, Union

from compilegate.job.errors import InputError, NonFiniteLossError

if TYPE_CHECKING:
    import torch

LOG_EVERY = 50
"""Steps whose losses are fetched together from a device."""


class Losses:
    """The loss of each step: the sum of those that it called `backward` on, or what it says."""

    def __init__(self, log_every: int = LOG_EVERY) -> None:
        self._log_every = log_every
        self._values: List[float] = []
        self._current: Union[float, torch.Tensor, None] = None
        self._said = False
        self._waiting: List[torch.Tensor] = []
        self._arriving: List[Tuple[torch.Tensor, Any]] = []
        """Losses on their way to the host, each with the event that says that they have arrived."""
        self.mean: Optional[Callable[[torch.Tensor], torch.Tensor]] = None
        """Makes of a loss that `backward` is called on the mean of all processes'; None where this
        one's own counts."""

    def saw(self, loss: torch.Tensor) -> None:
        """The step calls `backward` on this. Raises NonFiniteLossError on a CPU, where its value is
        known: nothing is updated by it."""
        if self._said or loss.numel() != 1:
            return
        if loss.device.type == "cpu" and self.mean is None:  # at once: this is part of every step
            value = loss.item()
            if not math.isfinite(value):
                _require_finite(value, len(self))
            known: Union[float, torch.Tensor] = value
        else:
            known = self._known(loss if self.mean is None else self.mean(loss.detach()))
        self._current = known if self._current is None else self._current + known

    def say(self, loss: Any) -> None:
        """The script says itself what the step's loss is. Raises NonFiniteLossError as `saw`."""
        self._current, self._said = self._known(loss), True

    def end_step(self) -> None:
        """The step is over. Raises InputError where it had no loss, and NonFiniteLossError for an
        earlier one's that has come."""
        loss, self._current, self._said = self._current, None, False
        if loss is None:
            raise InputError(
                f"step {len(self)} called backward() on no loss; put the whole step inside of "
                "job.step() or the loop over job.steps(loader), or say job.loss(value) in it"
            )
        if isinstance(loss, float):
            if self._waiting or self._arriving:  # losses of several devices: in order all the same
                self._values = self.values()
            self._values.append(loss)
            return
        self._waiting.append(loss)
        if len(self._waiting) >= self._log_every:
            self._fetch()
            self._take_arrived()

    @property
    def latest(self) -> Optional[float]:
        """The last one that is known without waiting. Raises NonFiniteLossError."""
        self._take_arrived()
        return self._values[-1] if self._values else None

    def go_on_from(self, values: Sequence[float]) -> None:
        """These are of the steps that an earlier process of the job took."""
        self._values = list(values)

    @property
    def has_current(self) -> bool:
        """Whether the step under way has one by now."""
        return self._current is not None

    def abandon_step(self) -> None:
        """It was none."""
        self._current, self._said = None, False

    def values(self) -> List[float]:
        """Those of each step. Waits for what is not known yet. Raises NonFiniteLossError."""
        self._fetch()
        self._take_arrived(wait=True)
        return self._values

    def __len__(self) -> int:
        waiting = len(self._waiting) + sum(len(each) for each, _ in self._arriving)
        return len(self._values) + waiting

    def _known(self, loss: Any) -> Union[float, torch.Tensor]:
        """The value where it is at hand; else the promise of one."""
        kind = loss.device.type if hasattr(loss, "detach") else ""
        if kind == "xla":
            traced: torch.Tensor = loss.detach()  # computed at the step's end, into its own memory
            return traced
        if kind not in ("", "cpu"):
            # A copy: with CUDA graphs the next step computes into the same memory.
            promise: torch.Tensor = loss.detach().float().reshape(()).clone()
            return promise
        value: float = loss.item() if kind else float(loss)
        if not math.isfinite(value):
            _require_finite(value, len(self))
        return value

    def _fetch(self) -> None:
        if not self._waiting:
            return
        import torch  # noqa: PLC0415 - programs without torch have losses, too

        device = self._waiting[-1].device
        if device.type == "xla":  # put together there, they would be a graph of their own
            device = torch.device("cpu")
        values = torch.stack([each.to(device).reshape(()) for each in self._waiting])
        self._waiting = []
        if device.type != "cuda":
            self._arriving.append((values.cpu(), None))
            return
        on_host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
        on_host.copy_(values, non_blocking=True)
        arrived: Any = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(device))
        self._arriving.append((on_host, arrived))

    def _take_arrived(self, *, wait: bool = False) -> None:
        while self._arriving:
            values, arrived = self._arriving[0]
            if arrived is not None:
                if not wait and not arrived.query():
                    return
                arrived.synchronize()
            first = len(self._values)
            del self._arriving[0]
            self._values += values.tolist()
            for step, value in enumerate(self._values[first:], start=first):
                _require_finite(value, step)


class Stepping(Protocol):
    """Something that takes steps."""

    in_step: bool
    """Whether one is under way."""


def watch_backward(course: Stepping, saw: Callable[[torch.Tensor], None]) -> None:
    """From here on, `saw` is told of each loss that `backward` is called on within a step.

    Of a loss that a GradScaler made larger, it is told what the loss was. Where a process
    starts one job after the other, the last one watches: a thousand around each other would end in
    a RecursionError.
    """
    import torch  # noqa: PLC0415 - as above

    backward = _unwatched(torch.Tensor.backward)
    scaled: List[Tuple[torch.Tensor, torch.Tensor]] = []

    @functools.wraps(backward)
    def watched(self: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        original = self
        if scaled:
            original = next((loss for result, loss in scaled if result is self), self)
            scaled.clear()
        if course.in_step:
            saw(original)
        return backward(self, *arguments, **named)

    torch.Tensor.backward = _marked(watched)  # pyrefly: ignore[method-assign]
    for scaler in _scalers():
        scaler.scale = _marked(_remembering(_unwatched(scaler.scale), scaled))


_OWN = "_compilegate_watches"


def _marked(function: Any) -> Any:
    setattr(function, _OWN, function)
    return function


def _unwatched(function: Any) -> Any:
    """Without what an earlier job put around it. Somebody else's wrapper, which may have copied the
    mark, stays."""
    return function.__wrapped__ if getattr(function, _OWN, None) is function else function


def _scalers() -> List[Any]:
    import torch  # noqa: PLC0415 - as above

    amp = getattr(torch, "amp", None)
    found = [getattr(amp, "GradScaler", None), torch.cuda.amp.GradScaler]
    # The second derives from the first since torch 2.3.
    return [each for each in found if each is not None and "scale" in vars(each)]


def _remembering(
    scale: Callable[..., Any], scaled: List[Tuple[torch.Tensor, torch.Tensor]]
) -> Callable[..., Any]:
    @functools.wraps(scale)
    def remembering(self: Any, outputs: Any) -> Any:
        result = scale(self, outputs)
        if hasattr(outputs, "backward"):
            scaled.append((result, outputs))
            del scaled[:-4]  # a loss that is never used would be held for good
        return result

    return remembering


def _require_finite(loss: float, step: int) -> None:
    if not math.isfinite(loss):
        raise NonFiniteLossError(f"the training loss is {loss} in step {step}", step=step)
