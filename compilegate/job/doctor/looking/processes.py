"""Runs what may crash or hang, with a time limit, and says in one sentence how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from compilegate.job.errors import killed_by

ROOT = Path(__file__).parents[4]
"""The folder that holds the package, for processes that import it."""
_LONGEST_SENTENCE = 400


class Ended(NamedTuple):
    """How a process ended."""

    output: str
    error: Optional[str]
    """One sentence; None where it ended well."""


def run(
    command: Sequence[str], seconds: float, variables: Optional[Mapping[str, str]] = None
) -> Ended:
    """Run a command without a shell; it never raises."""
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if variables is None else {**os.environ, **variables},
            start_new_session=True,
        )
    except OSError as error:
        return Ended("", f"it could not be started: {error.strerror or error}")
    with process:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except BaseException as error:
            # What it has started too: as long as that held the output open, nobody would go on.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return Ended("", f"it did not end within {seconds:.0f} seconds")
            raise
    output = stdout.decode("utf-8", "replace")
    if process.returncode < 0:
        return Ended(output, killed_by(-process.returncode))
    if process.returncode > 0:
        said = stderr.decode("utf-8", "replace") or output
        return Ended(output, last_sentence(said) or f"it ended with status {process.returncode}")
    return Ended(output, None)


def last_sentence(said: str) -> str:
    """The line of an error's text that says what was wrong: of a compiler the first with `error`,
    of a traceback the last."""
    lines: List[str] = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if " error:" in line or line.startswith("error:")]
    chosen = errors[0] if errors else (lines[-1] if lines else "")
    return chosen[:_LONGEST_SENTENCE]


def ask(module: str, seconds: float, *arguments: str) -> Dict[str, Any]:
    """What a module of this package prints as its last line, a JSON object; `error` in it says how
    the process ended where it printed none."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    ended = run([sys.executable, "-m", module, *arguments], seconds, {"PYTHONPATH": path})
    lines = ended.output.strip().splitlines()
    if ended.error is None and lines:
        try:
            answer = json.loads(lines[-1])
            if isinstance(answer, dict):
                return answer
        except ValueError:
            pass  # not what it should print: said below
    return {"error": ended.error or "its process printed no answer"}
