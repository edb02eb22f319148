"""Time several ways of doing one thing in turn, so that a busy machine slows all of them alike."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

PROJECT = Path(__file__).parents[1]
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
T = TypeVar("T")


class Ran(NamedTuple):
    """A program that ended well: its output, and what it and its children took."""

    output: str
    wall: float  # seconds
    cpu: float  # seconds
    gigabytes: float  # the largest resident set


def in_turn(ways: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """What each way returns in each round. Each round begins with another way."""
    names, found = list(ways), {name: list[T]() for name in ways}
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            found[name].append(ways[name]())
    return found


def run(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    folder: Path = PROJECT,
    one_core: bool = False,
) -> Ran:
    """Run a program in a folder; exit with its output when it fails."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PROJECT), **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
    )
    if one_core:
        os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
    assert process.stdout is not None  # noqa: S101 - a pipe was requested
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}\n{output}")
    cpu = usage.ru_utime + usage.ru_stime
    return Ran(output, time.perf_counter() - began, cpu, usage.ru_maxrss * 1024 / 1e9)
