"""The command and the commit that started an execution, and the command that continues it."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from compilegate.job.files import write_json

FILE = "origin.json"
ARGUMENTS = "compilegate.arguments"
"""The key under which a command's context keeps the command line."""
_GIT_SECONDS = 5.0


def record_provenance(folder: Path) -> None:
    """Write the command and the current folder's commit into the execution's folder."""
    commit = _git("rev-parse", "HEAD")
    arguments = click.get_current_context().meta.get(ARGUMENTS)
    recorded = {
        "command": None if arguments is None else shlex.join(["compilegate", *arguments]),
        "commit": commit or None,
        # Whether the checkout had changes that are not committed.
        "changed": bool(commit and _git("status", "--porcelain", "--untracked-files=no")),
    }
    write_json(folder / FILE, recorded)


def read_provenance(folder: Path) -> dict[str, Any]:
    """What was recorded, as `report.About` has it; nothing where it cannot be read."""
    try:
        recorded = json.loads((folder / FILE).read_text())
        return {name: recorded[name] for name in ("command", "commit", "changed")}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def resume_command(execution_id: str) -> str:
    """The command that continues an execution, whole: it can be copied as it stands. An execution
    keeps its options, so only those of the project are given again, if the command line had them.
    """
    context = click.get_current_context()
    root, again = context.find_root(), context.command.name == "run"
    words = ["compilegate", *(context.command_path.split()[1:] if again else ["run"])]
    words += ["--resume", execution_id]
    for option in root.command.params:
        name = str(option.name)
        if root.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = root.params[name]
            words += option.opts[:1] if value is True else [option.opts[0], str(value)]
    return shlex.join(words)


def _git(*arguments: str) -> str:
    """What git prints; nothing where there is no git, or no repository."""
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, timeout=_GIT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
