"""When the steps of a script began and ended, without disturbing them.

On a GPU operations run behind the program that asks for them. To wait for them in each step would
hide how they overlap, and flatter whatever asks for fewer. So there the GPU notes the time itself
(events), and the notes are read when it has long passed them.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, List, Optional, Protocol, Sequence, Tuple, cast

from compilegate.job.names import PROFILE_VARIABLE

if TYPE_CHECKING:
    import torch

_READ_TOGETHER = 256
"""Events that wait to be read. Each holds a little memory of the driver."""


class Clock(Protocol):
    """Measures steps, one after the other."""

    def begin(self) -> None:
        """A step begins, the wait for its batch included."""

    def begin_wait(self) -> None:
        """Within a step: it waits for a batch from here on."""

    def end_wait(self) -> None:
        """The batch is there. A wait that does not end was none."""

    def pause(self) -> None:
        """Something begins that is no part of the step."""

    def resume(self) -> None:
        """It is over."""

    def end(self) -> None:
        """It ends."""

    def abandon(self) -> None:
        """It was none: nothing of it counts."""

    def seconds(self) -> List[float]:
        """Those of each step so far. Waits for steps that still run."""

    def waits(self) -> List[float]:
        """In how many of them each step waited for its batch, and nothing was computed."""


def clock_for(device: Optional[torch.device]) -> Clock:
    """The clock for steps that compute there; None is a program without torch."""
    clock = HostClock() if device is None or device.type != "cuda" else DeviceClock(device)
    if device is None or not os.environ.get(PROFILE_VARIABLE):
        return clock
    from compilegate.job.profiling.clock import ProfiledClock  # noqa: PLC0415 - torch, and seldom
    from compilegate.job.profiling.session import current  # noqa: PLC0415

    return cast("Clock", ProfiledClock(clock, current()))


class HostClock:
    """For steps that are over when their last line is."""

    def __init__(self) -> None:
        self._began = self._paused = self._wait = 0.0
        self._waits_since: Optional[float] = None
        self._seconds: List[float] = []
        self._waits: List[float] = []

    def begin(self) -> None:
        """Note the time."""
        self._began, self._wait, self._waits_since = time.perf_counter(), 0.0, None

    def begin_wait(self) -> None:
        """Note the time."""
        self._waits_since = time.perf_counter()

    def end_wait(self) -> None:
        """Add what it took."""
        if self._waits_since is not None:
            self._wait += time.perf_counter() - self._waits_since
            self._waits_since = None

    def pause(self) -> None:
        """Note the time."""
        self._paused = time.perf_counter()

    def resume(self) -> None:
        """The step began that much later."""
        self._began += time.perf_counter() - self._paused

    def end(self) -> None:
        """Note the step."""
        self._seconds.append(time.perf_counter() - self._began)
        self._waits.append(self._wait)

    def abandon(self) -> None:
        """Forget the time."""

    def seconds(self) -> List[float]:
        """Those of each step so far."""
        return self._seconds

    def waits(self) -> List[float]:
        """The same of their waits."""
        return self._waits


_Spans = List[Tuple[Any, Any]]
"""Events at the beginning and the end of something."""


class DeviceClock:
    """For steps that a GPU still computes when their last line is over.

    A wait for a batch is only one as far as the GPU has nothing to do meanwhile: mostly it still
    computes the step before. What is noted at a wait's beginning is noted when that is over.
    """

    def __init__(self, device: torch.device, cuda: Any = None) -> None:
        """`cuda` has the interface of torch.cuda, which it is unless another one is given."""
        import torch  # noqa: PLC0415 - programs without torch have steps, too

        self._cuda = cuda or torch.cuda
        self._device = device
        self._began: Any = None
        self._pauses: _Spans = []
        self._paused: Any = None
        self._own_waits: _Spans = []
        self._waits_since: Any = None
        self._waiting: List[Tuple[Any, Any, _Spans, _Spans]] = []
        self._seconds: List[float] = []
        self._waits: List[float] = []

    def begin(self) -> None:
        """Have the GPU note the time when it gets here."""
        self._began, self._pauses, self._own_waits = self._noted(), [], []
        self._waits_since = None

    def begin_wait(self) -> None:
        """Have it note that time, too."""
        self._waits_since = self._noted()

    def end_wait(self) -> None:
        """And this one."""
        if self._waits_since is not None:
            self._own_waits.append((self._waits_since, self._noted()))
            self._waits_since = None

    def pause(self) -> None:
        """Have it note that time, too."""
        self._paused = self._noted()

    def resume(self) -> None:
        """And this one."""
        self._pauses.append((self._paused, self._noted()))

    def end(self) -> None:
        """Have it note the end; read the notes that it has long passed."""
        self._waiting.append((self._began, self._noted(), self._pauses, self._own_waits))
        if len(self._waiting) >= 2 * _READ_TOGETHER and self._waiting[_READ_TOGETHER][1].query():
            self._read(_READ_TOGETHER)

    def abandon(self) -> None:
        """Forget the beginning."""
        self._began = None

    def seconds(self) -> List[float]:
        """Those of each step so far. Waits for the GPU."""
        self._cuda.synchronize(self._device)
        self._read(len(self._waiting))
        return self._seconds

    def waits(self) -> List[float]:
        """The same of their waits."""
        self.seconds()
        return self._waits

    def _noted(self) -> Any:
        event: Any = self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def _read(self, count: int) -> None:
        for began, end, pauses, waits in self._waiting[:count]:
            # Mostly they are there: that a later one is says nothing of other streams' notes.
            for each in (began, end, *(note for span in (*pauses, *waits) for note in span)):
                each.synchronize()
            paused, waited = (
                sum(each.elapsed_time(after) for each, after in spans) for spans in (pauses, waits)
            )
            self._seconds.append((began.elapsed_time(end) - paused) / 1e3)
            self._waits.append(waited / 1e3)
        del self._waiting[:count]


NOTABLE_WAIT = 0.25
"""Share of the steps' time."""


def slow_loader(seconds: Sequence[float], waits: Sequence[float]) -> Optional[str]:
    """What is to be said of the loader, given the seconds of steady steps and those in which they
    waited for their batch; None where that was little."""
    total = sum(seconds)
    if not total or sum(waits) < NOTABLE_WAIT * total:
        return None
    return (
        f"The loader is what is slow: {min(sum(waits) / total, 1.0):.0%} of the steady steps' time "
        "is the wait for a batch, which no compiler shortens; give the DataLoader more workers "
        "(num_workers), keep them (persistent_workers), or prepare the data once."
    )
