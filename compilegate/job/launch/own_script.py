"""Starts a training script of a workload's own, and writes what evidence the script does not write.

The request names this program. Variables say which script is meant, in how many processes it runs
on each machine, whether its failure is evidence (a candidate that cannot be trained must not keep
the baseline from its release), and which metrics to catch where the script only prints them. The
script gets its own arguments and no others.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from types import FrameType
from typing import IO, Dict, List, Optional, Sequence

from compilegate.job.errors import killed_by
from compilegate.job.evidence import CompilerRecord, Evidence, Origin, write_evidence
from compilegate.job.launch.printed_metrics import Lines, PrintedMetrics
from compilegate.job.launch.torchrun import torchrun_command
from compilegate.job.machine.world import host_rank
from compilegate.job.names import (
    ARM_VARIABLE,
    ON_FAILURE_VARIABLE,
    OUTPUT_DATA_VARIABLE,
    PROCESSES_VARIABLE,
    SCRIPT_VARIABLE,
)

SECONDS_TO_READ = 5.0
"""What the script leaves running may hold its output open; nobody waits for that."""
MOST_REMEMBERED = 20_000

_EXCEPTION = re.compile(r"^(?:\[rank\d+\]: )?([A-Za-z_][\w.]*: \S.*)$", re.MULTILINE)
"""The last line of a traceback, also where torchrun says whose it is."""


def main(arguments: Sequence[str]) -> int:
    """Run the script to its end; returns the exit status for this process."""
    program = [os.environ[SCRIPT_VARIABLE], *arguments]
    processes = os.environ.get(PROCESSES_VARIABLE)
    command = (
        [sys.executable, *program]
        if processes is None
        else torchrun_command(int(processes), program, os.environ)
    )
    printed = PrintedMetrics.declared(os.environ)
    child = subprocess.Popen(
        command, stdout=None if printed is None else subprocess.PIPE, stderr=subprocess.PIPE
    )
    stopped = _pass_stop_signals_to(child)
    errors = _Output(child.stderr, sys.stderr.buffer, printed)
    output = None if printed is None else _Output(child.stdout, sys.stdout.buffer, printed)
    status = child.wait()
    if stopped:
        return 128 + stopped[0]  # the platform or a person ended it: that says nothing of the arm
    if status:
        if os.environ.get(ON_FAILURE_VARIABLE) != "record":
            return status if status >= 0 else 128 - status
        reason = f"{_ending(status)}: {errors.exception()}"
        evidence = _evidence(arguments, failure=reason)
        print(f"recorded: arm {evidence.arm} could not be trained: {reason}", flush=True)
    elif printed is not None and output is not None:
        output.wait()
        errors.wait()
        evidence = _evidence(arguments, metrics=printed.values, origin=Origin.PRINTED)
    else:
        return 0  # the script wrote its evidence itself
    if host_rank(os.environ) == 0:
        write_evidence(os.environ[OUTPUT_DATA_VARIABLE], evidence)
    return 0


class _Output:
    """A stream of the script's, passed on as it comes, with its end remembered."""

    def __init__(
        self, stream: Optional[IO[bytes]], onward: IO[bytes], metrics: Optional[PrintedMetrics]
    ) -> None:
        self._end = b""
        self._lines = None if metrics is None else Lines(metrics)
        self._reader = threading.Thread(target=self._pass_on, args=(stream, onward), daemon=True)
        self._reader.start()

    def _pass_on(self, stream: IO[bytes], onward: IO[bytes]) -> None:
        for chunk in iter(lambda: os.read(stream.fileno(), 65536), b""):
            onward.write(chunk)
            onward.flush()
            self._end = (self._end + chunk)[-MOST_REMEMBERED:]
            if self._lines is not None:
                self._lines.feed(chunk)
        if self._lines is not None:
            self._lines.end()

    def wait(self) -> None:
        """Until all of it was read."""
        self._reader.join(SECONDS_TO_READ)

    def exception(self) -> str:
        """The last exception in it that a script raised, in one line."""
        self.wait()
        found = _EXCEPTION.findall(self._end.decode(errors="replace"))
        return found[-1] if found else "its log says more"


def _pass_stop_signals_to(child: subprocess.Popen[bytes]) -> List[int]:
    """The returned list fills with those that came."""
    received: List[int] = []

    def forward(number: int, _frame: Optional[FrameType]) -> None:
        received.append(number)
        child.send_signal(number)

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, forward)
    return received


def _ending(status: int) -> str:
    if status >= 0:
        return f"the script ended with exit status {status}"
    return f"the script was {killed_by(-status)}"


def _evidence(
    arguments: Sequence[str],
    *,
    metrics: Optional[Dict[str, float]] = None,
    failure: Optional[str] = None,
    origin: str = Origin.MEASURED,
) -> Evidence:
    """What is known without the script: its arguments, its output, how it ended."""
    told = {name[2:]: value for name, value in zip(arguments[::2], arguments[1::2])}
    compiler = told.get("compiler")
    return Evidence(
        job=os.environ["TRAINING_JOB_NAME"],
        arm=os.environ[ARM_VARIABLE],
        seed=int(told["seed"]),
        recipe=told,
        # Of a script that failed nobody asks whether its compiler ran.
        compiler=CompilerRecord(compiler, ran=False) if compiler and failure else None,
        speed=None,
        metrics=metrics or {},
        failure=failure,
        origin=origin,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
