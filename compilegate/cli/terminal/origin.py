"""Where an execution came from: the command that started it and the commit it started at; and the
command that continues it."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from compilegate.job.files import write_json

FILE = "origin.json"
ARGUMENTS = "compilegate.arguments"
"""The key under which a command's context keeps the command line."""
_SECONDS = 5.0
"""That git has to answer: a page can do without a commit."""


@dataclass(frozen=True)
class Origin:
    """What is known; None where it is not."""

    command: str | None = None
    commit: str | None = None
    changed: bool = False
    """Whether there were changes that no commit holds."""


def note_origin(folder: Path) -> None:
    """Write down, in the execution's folder, the command and the commit of the current
    folder."""
    commit = _git("rev-parse", "HEAD")
    changed = bool(commit and _git("status", "--porcelain", "--untracked-files=no"))
    arguments = click.get_current_context().meta.get(ARGUMENTS)
    command = None if arguments is None else shlex.join(["compilegate", *arguments])
    origin = Origin(command, commit or None, changed)
    write_json(folder / FILE, asdict(origin))


def read_origin(folder: Path) -> Origin:
    """What was written down; nothing where nothing was, or it cannot be read."""
    try:
        raw = json.loads((folder / FILE).read_text())
        return Origin(
            command=None if raw["command"] is None else str(raw["command"]),
            commit=None if raw["commit"] is None else str(raw["commit"]),
            changed=bool(raw["changed"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Origin()


def resume_command(execution_id: str, context: click.Context) -> str:
    """The command that continues an execution, whole: it can be copied as it stands. An execution
    keeps its options, so only those of the project are given again, if the command line had them.
    """
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
    """What git says; empty where there is no git, or no repository."""
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
