"""Starts a workload's own training script, where its start takes more than a toolkit does.

The request names this program. Variables say which script is meant, in how many processes it runs
on each machine, and whether its failure is evidence: a candidate that cannot be trained must not
keep the baseline from its release. The script gets its own arguments and no others.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from types import FrameType
from typing import IO, List, Optional, Sequence

from compilegate.job.errors import killed_by
from compilegate.job.evidence import CompilerRecord, Evidence, write_evidence
from compilegate.job.launch.torchrun import torchrun_command
from compilegate.job.machine.world import host_rank

SECONDS_TO_READ = 5.0
"""What the script leaves running may hold its output open; nobody waits for that."""
MOST_REMEMBERED = 20_000

_EXCEPTION = re.compile(r"^(?:\[rank\d+\]: )?([A-Za-z_][\w.]*: \S.*)$", re.MULTILINE)
"""The last line of a traceback, also where torchrun says whose it is."""


def main(arguments: Sequence[str]) -> int:
    """Run the script to its end; returns the exit status for this process."""
    program = [os.environ["COMPILEGATE_SCRIPT"], *arguments]
    processes = os.environ.get("COMPILEGATE_PROCESSES")
    command = (
        [sys.executable, *program]
        if processes is None
        else torchrun_command(int(processes), program, os.environ)
    )
    child = subprocess.Popen(command, stderr=subprocess.PIPE)
    stopped = _pass_stop_signals_to(child)
    said = _Said(child.stderr)
    status = child.wait()
    if stopped:
        return 128 + stopped[0]  # the platform or a person ended it: that says nothing of the arm
    if status and os.environ.get("COMPILEGATE_ON_FAILURE") == "record":
        if host_rank(os.environ) == 0:
            _record(f"{_ending(status)}: {said.exception()}", arguments)
        return 0
    return status if status >= 0 else 128 - status


class _Said:
    """What a process says on standard error, said on, with its end remembered."""

    def __init__(self, stream: Optional[IO[bytes]]) -> None:
        self._end = b""
        self._reader = threading.Thread(target=self._pass_on, args=(stream,), daemon=True)
        self._reader.start()

    def _pass_on(self, stream: IO[bytes]) -> None:
        for chunk in iter(lambda: os.read(stream.fileno(), 65536), b""):
            sys.stderr.buffer.write(chunk)
            sys.stderr.buffer.flush()
            self._end = (self._end + chunk)[-MOST_REMEMBERED:]

    def exception(self) -> str:
        """The last exception in it that a script raised, in one line."""
        self._reader.join(SECONDS_TO_READ)
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


def _record(reason: str, arguments: Sequence[str]) -> None:
    told = dict(zip(arguments[::2], arguments[1::2]))
    evidence = Evidence(
        job=os.environ["TRAINING_JOB_NAME"],
        arm=os.environ["COMPILEGATE_ARM"],
        seed=int(told["--seed"]),
        recipe={name[2:]: value for name, value in told.items()},
        compiler=CompilerRecord(name=told["--compiler"], ran=False),
        speed=None,
        failure=reason,
    )
    print(f"recorded: arm {evidence.arm} could not be trained: {reason}", flush=True)
    write_evidence(os.environ["SM_OUTPUT_DATA_DIR"], evidence)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
