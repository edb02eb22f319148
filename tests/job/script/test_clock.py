"""The clock of steps on a GPU, with something that has the interface of torch.cuda.

A stream that works its queue off only when somebody waits for it; an event's time is read as torch
allows it: when both have happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch

from compilegate.job.script.steps import Clock


@dataclass
class Stream:
    """Work of a device, each piece with its milliseconds."""

    now: float = 0.0
    queue: list[float | Event] = field(default_factory=list)

    def work(self, milliseconds: float) -> None:
        self.queue.append(milliseconds)

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
    stream: Stream | None = None

    def record(self, stream: Stream) -> None:
        self.stream = stream
        stream.queue.append(self)

    def query(self) -> bool:
        return self.at is not None

    def synchronize(self) -> None:
        if self.stream is not None:
            self.stream.finish(self)

    def elapsed_time(self, end: Event) -> float:
        if self.at is None or end.at is None:
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return end.at - self.at


class Cuda:
    """As torch.cuda, with two streams, each with its own pace."""

    def __init__(self) -> None:
        self.streams = [Stream(), Stream()]
        self.chosen = 0

    def Event(self, *, enable_timing: bool) -> Event:  # noqa: N802 - torch calls it so
        assert enable_timing
        return Event()

    def current_stream(self, _device: torch.device) -> Stream:
        return self.streams[self.chosen]

    def synchronize(self, _device: torch.device) -> None:
        for each in self.streams:
            each.finish()


def take(clock: Clock, cuda: Cuda, milliseconds: float, *, pause: float = 0.0) -> None:
    clock.begin()
    stream = cuda.current_stream(torch.device("cuda"))
    stream.work(milliseconds / 2)
    if pause:
        clock.pause()
        stream.work(pause)
        clock.resume()
    stream.work(milliseconds / 2)
    clock.end()


def test_steps_are_timed_by_the_device_and_nothing_waits_for_it() -> None:
    cuda = Cuda()
    clock = Clock(torch.device("cuda"), cuda)
    for number in range(10):
        take(clock, cuda, number + 1.0, pause=100.0 if number == 3 else 0.0)
    assert all(each.now == 0.0 for each in cuda.streams)  # not a millisecond was waited for
    clock.begin()
    cuda.streams[0].work(1000.0)
    assert clock.seconds() == pytest.approx([(number + 1) / 1e3 for number in range(10)])


def test_notes_of_another_stream_are_waited_for_when_they_are_read() -> None:
    """A later note that is there says nothing of those that another stream has still to take."""
    cuda = Cuda()
    clock = Clock(torch.device("cuda"), cuda)
    for number in range(600):
        cuda.chosen = int(number == 2)
        take(clock, cuda, 4.0)
        if number == 2:
            cuda.chosen = 0
        cuda.streams[0].finish()  # the other stream lags behind
    assert clock.seconds() == [4.0 / 1e3] * 600


def test_a_wait_counts_only_as_far_as_the_device_has_nothing_to_do() -> None:
    """The program is ahead of the device: it waits while the step before is still computed."""
    cuda = Cuda()
    clock, stream = Clock(torch.device("cuda"), cuda), cuda.streams[0]
    for late in (0.0, 0.0, 6.0):  # milliseconds after the device has nothing to do
        clock.begin()
        clock.begin_wait()
        if late:
            stream.finish()
            stream.now += late
        clock.end_wait()
        stream.work(10.0)
        clock.end()
    clock.begin()
    clock.begin_wait()  # for a batch that did not come
    assert clock.waits() == [0.0, 0.0, 6.0 / 1e3]
    assert clock.seconds() == [10.0 / 1e3, 10.0 / 1e3, 16.0 / 1e3]
