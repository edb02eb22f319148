"""Programs that a job starts: how one ended, its import path, and the compilers of kernels.

Needs no torch.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Mapping, NamedTuple, Optional, Sequence

from compilegate.job.errors import killed_by


class Ended(NamedTuple):
    """How a program ended."""

    output: str
    error: Optional[str]
    """One sentence; None where it succeeded."""


def run(
    command: Sequence[str], seconds: float, environment: Optional[Mapping[str, str]] = None
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
        )
    except OSError as error:
        return Ended("", f"it could not be started: {error.strerror or error}")
    with process:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except BaseException as error:
            # Its children too: while one of them held the output open, nobody would go on.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return Ended("", f"it did not end within {seconds:.0f} seconds")
            raise
    output = stdout.decode("utf-8", "replace")
    if process.returncode < 0:
        return Ended(output, killed_by(-process.returncode))
    if process.returncode > 0:
        reason = _reason(stderr.decode("utf-8", "replace") or output)
        return Ended(output, reason or f"it ended with status {process.returncode}")
    return Ended(output, None)


def _reason(text: str) -> str:
    """The line that says what was wrong: a compiler's first with `error`, a traceback's last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if " error:" in line or line.startswith("error:")]
    return (errors[0] if errors else lines[-1] if lines else "")[:400]


def import_path(environment: Mapping[str, str]) -> str:
    """The PYTHONPATH of a child that imports this package as its parent does."""
    root = str(Path(__file__).resolve().parents[3])
    return os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH"))))


def cxx_compiler(environment: Mapping[str, str]) -> Optional[str]:
    """The C++ compiler that inductor takes: that of CXX, or the system's usual one."""
    usual = "clang++" if sys.platform == "darwin" else "g++"
    return shutil.which(environment.get("CXX") or usual, path=environment.get("PATH"))


def c_compiler(environment: Mapping[str, str]) -> Optional[str]:
    """The C compiler that Triton takes: that of CC, gcc or clang."""
    named = environment.get("CC")
    found = (
        shutil.which(name, path=environment.get("PATH"))
        for name in ([named] if named else ["gcc", "clang"])
    )
    return next((each for each in found if each), None)


def version_line(program: str) -> Optional[str]:
    """The first line that a compiler prints about its version."""
    return next(iter(run([program, "--version"], 60).output.splitlines()), None)
