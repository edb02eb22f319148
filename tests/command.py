"""The command as a process, as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PROJECT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-c", "from compilegate.cli import main; main(prog_name='compilegate')"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONUNBUFFERED": "1"}


def run(
    *words: str | Path,
    cwd: Path = PROJECT,
    stdin: str = "",
    env: Mapping[str, str] = ENVIRONMENT,
) -> subprocess.CompletedProcess[str]:
    """Run any program to its end."""
    return subprocess.run(
        [*map(str, words)],
        cwd=cwd,
        input=stdin,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def compilegate(
    *arguments: str | Path,
    cwd: Path = PROJECT,
    stdin: str = "",
    env: Mapping[str, str] = ENVIRONMENT,
) -> subprocess.CompletedProcess[str]:
    """Run `compilegate` to its end; `env` is its whole environment."""
    return run(*COMMAND, *arguments, cwd=cwd, stdin=stdin, env=env)
