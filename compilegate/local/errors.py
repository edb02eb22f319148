"""What can go wrong in a local run, by who has to act on it."""

from __future__ import annotations

import shutil
from pathlib import Path

from compilegate.errors import CompilegateError


class LocalRunError(CompilegateError):
    """Any error of the local runner. The message is one sentence for the person at the terminal."""


class RefusedDefinitionError(LocalRunError):
    """The definition cannot run here. Nothing has started."""


class ExecutionError(LocalRunError):
    """An execution cannot be started, resumed or read."""


class ImageEnvironmentError(LocalRunError):
    """An image's Python environment cannot be made."""


class RegistryError(LocalRunError):
    """A model package or group cannot be made, found or changed."""


class StepError(LocalRunError):
    """A step cannot do what its request says; the step fails with this sentence."""


class StepRequestError(StepError):
    """A step's request lacks a member, or holds one that is mistyped or not supported here."""


class ObjectStoreError(StepError):
    """An s3:// object is absent from the local store, or its URI is malformed."""


class SourceArchiveError(StepError):
    """A job's source archive is damaged or would write outside its folder."""


class CapacityError(StepError):
    """This machine ran out of disk or memory while a job was prepared or collected."""


def no_space(path: Path, needed: int) -> CapacityError:
    """Why a file of `needed` bytes could not be written at `path`, whose disk is full."""
    folder = next(each for each in (path, *path.parents) if each.is_dir())
    free = shutil.disk_usage(folder).free
    return CapacityError(
        f"no space left for {path}: it needs {_size(needed)}, and {_size(free)} are free"
    )


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
