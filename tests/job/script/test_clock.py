"""The clock of steps on a GPU, with something that has the interface of torch.cuda.

A stream works its queue off only when somebody waits for it; an event's time is read as torch
allows it: when both have happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch

from compilegate.job.script.steps import Clock


@dataclass
class Stream:
    """Work of a device, each piece with its milliseconds."""

    now: float = 0.0
    queue: list[float | Event] = field(default_factory=list)

    def finish(self, until: Event | None = None) -> None:
        while self.queue and (until is None or until.at is None):
            each = self.queue.pop(0)
            if isinstance(each, Event):
                each.at = self.now
            else:
                self.now += each


@dataclass
class Event:
    at: float | None = None
    stream: Stream = field(default_factory=Stream)

    def record(self, stream: Stream) -> None:
        self.stream = stream
        stream.queue.append(self)

    def query(self) -> bool:
        return self.at is not None

    def synchronize(self) -> None:
        self.stream.finish(self)

    def elapsed_time(self, end: Event) -> float:
        assert self.at is not None
        assert end.at is not None
        return end.at - self.at


class Device:
    """Two streams, each with its own pace, and a clock of its steps."""

    def __init__(self) -> None:
        self.streams = [Stream(), Stream()]
        self.chosen = 0
        cuda = SimpleNamespace(
            Event=lambda enable_timing: Event(),
            current_stream=lambda _: self.streams[self.chosen],
            synchronize=lambda _: [each.finish() for each in self.streams],
        )
        self.clock = Clock(torch.device("cuda"), cuda)

    def take(self, milliseconds: float, *, pause: float = 0.0) -> None:
        queue = self.streams[self.chosen].queue
        self.clock.begin()
        queue.append(milliseconds / 2)
        if pause:
            self.clock.pause()
            queue.append(pause)
            self.clock.resume()
        queue.append(milliseconds / 2)
        self.clock.end()


def test_steps_are_timed_by_the_device_and_nothing_waits_for_it() -> None:
    device = Device()
    for number in range(10):
        device.take(number + 1.0, pause=100.0 if number == 3 else 0.0)
    assert all(each.now == 0.0 for each in device.streams)  # not a millisecond was waited for
    device.clock.begin()
    device.streams[0].queue.append(1000.0)
    assert device.clock.seconds() == pytest.approx([(number + 1) / 1e3 for number in range(10)])


def test_notes_of_another_stream_are_waited_for_when_they_are_read() -> None:
    """A later note that is there says nothing of those that another stream has still to take."""
    device = Device()
    for number in range(600):
        device.chosen = int(number == 2)
        device.take(4.0)
        device.streams[0].finish()  # the other stream lags behind
    assert device.clock.seconds() == [4.0 / 1e3] * 600


def test_a_wait_counts_only_as_far_as_the_device_has_nothing_to_do() -> None:
    """The program is ahead of the device: it waits while the step before is still computed."""
    device = Device()
    clock, stream = device.clock, device.streams[0]
    for late in (0.0, 0.0, 6.0):  # milliseconds after the device has nothing to do
        clock.begin()
        clock.begin_wait()
        if late:
            stream.finish()
            stream.now += late
        clock.end_wait()
        stream.queue.append(10.0)
        clock.end()
    clock.begin()
    clock.begin_wait()  # for a batch that did not come
    assert clock.waits() == [0.0, 0.0, 6.0 / 1e3]
    assert clock.seconds() == [10.0 / 1e3, 10.0 / 1e3, 16.0 / 1e3]
