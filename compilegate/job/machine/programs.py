"""Another program's answer: how it ended, and what nvidia-smi says. Needs no torch."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shutil
import signal
import subprocess
import sys
from typing import Mapping, NamedTuple, Sequence

from compilegate.job.errors import killed_by

_DRIVER_SECONDS = 30
"""A driver that has to wake eight GPUs takes some; one that is broken may never answer."""


class Ended(NamedTuple):
    output: str
    error: str | None  # one sentence; None where it succeeded


def run(
    command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a command without a shell, for at most so long. It never raises."""
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            text=True,
            errors="replace",
        )
    except OSError as error:
        return Ended("", f"it could not be started: {error.strerror or error}")
    with process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            # Its children too: one of them may hold the output open.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return Ended("", f"it did not end within {seconds:.0f} seconds")
    if process.returncode < 0:
        return Ended(output, killed_by(-process.returncode))
    if process.returncode > 0:
        last = (errors or output).strip().splitlines()[-1:] or ["it printed nothing"]
        return Ended(output, last[0].strip()[:400])
    return Ended(output, None)


class DriverAnswer(NamedTuple):
    rows: list[dict[str, str]]  # for each GPU, the fields that this driver knows
    error: str | None


def nvidia_smi(fields: Sequence[str], path: str | None = None) -> DriverAnswer:
    """Ask nvidia-smi in `path`, or PATH, for fields that its `--help-query-gpu` lists."""
    program = shutil.which("nvidia-smi", path=path)
    if program is None:
        return DriverAnswer([], "nvidia-smi is not installed")
    query = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    ended = run(query, _DRIVER_SECONDS)
    # A driver refuses the whole query for a field that it does not know, and names it.
    unknown = re.search(r'Field "([^"]+)" is not a valid field', ended.output + (ended.error or ""))
    if unknown is not None and unknown[1] in fields:
        return nvidia_smi([each for each in fields if each != unknown[1]], path)
    rows = list(csv.reader(ended.output.splitlines(), skipinitialspace=True))
    wrong = next((", ".join(row) for row in rows if len(row) != len(fields)), None)
    if ended.error or wrong:
        return DriverAnswer([], f"nvidia-smi says: {ended.error or wrong}")
    return DriverAnswer([dict(zip(fields, row)) for row in rows], None)


def cxx_compiler(environment: Mapping[str, str]) -> str | None:
    """The C++ compiler that inductor takes: that of CXX, or the system's usual one."""
    usual = "clang++" if sys.platform == "darwin" else "g++"
    return shutil.which(environment.get("CXX") or usual, path=environment.get("PATH"))


def version_line(program: str) -> str | None:
    return next(iter(run([program, "--version"], 60).output.splitlines()), None)
