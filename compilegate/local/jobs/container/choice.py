"""Whether jobs get a root of their own here: it is tried, because many things forbid it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from compilegate.local.jobs.launcher import JobCommand, RunningJob
from compilegate.local.jobs.sandbox import ML, Sandbox

OWN_ROOT_VARIABLE = "COMPILEGATE_OWN_ROOT"
"""`0` in the runner's environment lets jobs share this machine's root even where they need not."""
SHARED_VARIABLE = "COMPILEGATE_SHARE"
"""Folders of this machine that jobs may write to, separated as in PATH."""
_SECONDS = 20.0


@dataclass(frozen=True)
class Paths:
    """How jobs find /opt/ml."""

    own_root: bool
    sentence: str
    """For the person at the terminal."""


OWN_ROOT = Paths(
    own_root=True,
    sentence="each job has a root of its own, with /opt/ml in it; the rest of this machine is "
    "read-only to it",
)


def shared_folders(asked: Iterable[Path]) -> tuple[Path, ...]:
    """The folders that are asked for, and those that the variable names."""
    named = os.environ.get(SHARED_VARIABLE, "").split(os.pathsep)
    return tuple(folder.resolve() for folder in (*asked, *(Path(name) for name in named if name)))


def choose_paths(home: Path, own_root: bool | None = None) -> Paths:
    """What is asked for, or whatever a try in this home shows to work."""
    if own_root is not None:
        return OWN_ROOT if own_root else _rewriting("as was asked for")
    if os.environ.get(OWN_ROOT_VARIABLE) == "0":
        return _rewriting(f"as {OWN_ROOT_VARIABLE}=0 asks")
    if sys.platform != "linux":
        return _rewriting(f"because {sys.platform} has no mount namespaces")
    home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="try-", dir=home))
    try:
        return _try(Sandbox(folder, own_root=True))
    except OSError as error:
        return _rewriting(f"because this machine allows no other ({error})")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _try(sandbox: Sandbox) -> Paths:
    command = JobCommand(
        argv=["/bin/sh", "-c", ": > /opt/ml/here && test -d /tmp"],
        working_directory=str(ML),
        environment={},
        cpus=(),
        max_seconds=_SECONDS,
        grace_seconds=0,
        view=sandbox.view(),
    )
    end = RunningJob().run(command, sandbox.log, lambda _line: None)
    if end.succeeded and sandbox.path(ML / "here").is_file():
        return OWN_ROOT
    said = end.error or " ".join(end.last_lines) or f"exit code {end.code}"
    return _rewriting(f"because this machine allows no other ({said})")


def _rewriting(reason: str) -> Paths:
    return Paths(
        own_root=False,
        sentence=f"jobs share this machine's root, {reason}: /opt/ml is rewritten in requests, and "
        "a program that itself names /opt/ml fails",
    )
