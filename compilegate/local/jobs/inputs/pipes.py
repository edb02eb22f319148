"""Pipe mode: a channel's objects come through /opt/ml/input/data/NAME_EPOCH, one pipe an epoch."""

from __future__ import annotations

import errno
import gzip
import os
import random
import select
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compilegate.local.jobs.inputs.channels import Channel

_CHUNK_BYTES = 1 << 16
_POLL_SECONDS = 0.05
_MAGIC = 0xCED7230A
_PART_BYTES = (1 << 29) - 4
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)


@dataclass(frozen=True)
class PipedChannel:
    """A channel, its records, and the folder of the pipes."""

    channel: Channel
    records: Sequence[Sequence[Path | bytes]]
    """Each of one file, or of the files and values of an augmented manifest's line."""
    folder: Path

    def pipe(self, epoch: int) -> Path:
        """Where the job reads that epoch."""
        return self.folder / f"{self.channel.name}_{epoch}"

    def chunks(self, epoch: int) -> Iterator[bytes]:
        """All that an epoch's reader gets."""
        records = list(self.records)
        if self.channel.shuffle_seed is not None:
            random.Random(self.channel.shuffle_seed + epoch).shuffle(records)  # noqa: S311
        for record in records:
            for each in record:
                yield from self._content(each)

    def _content(self, what: Path | bytes) -> Iterator[bytes]:
        if isinstance(what, bytes):
            yield from _records(what) if self.channel.record_io else (what,)
            return
        with gzip.open(what) if self.channel.gzipped else what.open("rb") as source:
            if self.channel.record_io:
                yield from _records(source.read())
            else:
                yield from iter(lambda: source.read(_CHUNK_BYTES), b"")


def _records(content: bytes) -> Iterator[bytes]:
    """One object as a RecordIO record, in parts where it is too long for one."""
    starts = range(0, max(1, len(content)), _PART_BYTES)
    for start in starts:
        part = content[start : start + _PART_BYTES]
        is_first, is_last = start == 0, start == starts[-1]
        kind = (_WHOLE if is_last else _FIRST) if is_first else (_LAST if is_last else _MIDDLE)
        yield struct.pack("<II", _MAGIC, kind << 29 | len(part)) + part + b"\0" * (-len(part) % 4)


@contextmanager
def fed(channels: Sequence[PipedChannel]) -> Iterator[None]:
    """Feed the pipes, epoch after epoch, for as long as the context lasts."""
    feeders = [_Feeder(channel) for channel in channels]
    try:
        for feeder in feeders:
            feeder.start()
        yield
    finally:
        for feeder in feeders:
            feeder.end()
    failed = next((feeder.failure for feeder in feeders if feeder.failure), None)
    if failed is not None:
        raise failed


class _Feeder:
    def __init__(self, channel: PipedChannel) -> None:
        self._channel = channel
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.failure: OSError | None = None

    def start(self) -> None:
        os.mkfifo(self._channel.pipe(0))
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        for pipe in self._channel.folder.glob(f"{self._channel.channel.name}_*"):
            if pipe.is_fifo():
                pipe.unlink()

    def _work(self) -> None:
        epoch = 0
        try:
            while (descriptor := self._opened(self._channel.pipe(epoch))) is not None:
                # The next pipe is there before a reader can come to the end of this one.
                os.mkfifo(self._channel.pipe(epoch + 1))
                try:
                    self._write(descriptor, epoch)
                finally:
                    os.close(descriptor)
                epoch += 1
        except OSError as error:
            self.failure = error

    def _opened(self, pipe: Path) -> int | None:
        """The pipe as soon as somebody reads it; None when the job is over."""
        while not self._over.wait(_POLL_SECONDS):
            try:
                return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
        return None

    def _write(self, descriptor: int, epoch: int) -> None:
        for chunk in self._channel.chunks(epoch):
            rest = memoryview(chunk)
            while rest:
                if self._over.is_set():
                    return
                if not select.select([], [descriptor], [], _POLL_SECONDS)[1]:
                    continue
                try:
                    rest = rest[os.write(descriptor, rest) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:  # the reader wants no more of this epoch
                    return
