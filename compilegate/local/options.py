"""What an execution here runs with, beside its definition and its parameters.

    HOME/executions/ID/options.json

A resumed execution takes the options that it was started with: results of two environments in one
execution would be compared as if they came from one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from compilegate.job.files import settings_digest, write_json
from compilegate.local.errors import ExecutionError
from compilegate.local.home.images import HERE, ImageSources
from compilegate.local.jobs.calls import Handler

DEFAULT_GRACE_SECONDS = 10.0
Value = TypeVar("Value")
_FILE = "options.json"
_COMMAND_LINE = {
    "containers": "the folder of images",
    "images": "--image",
    "functions": "--function",
    "given_models": "--model",
    "commands": "--command",
    "variables": "--env",
    "later": "--data",
    "shared": "--share",
    "cores_per_job": "--cores-per-job",
    "max_parallel_steps": "--max-parallel",
    "use_cache": "--no-cache",
    "until": "--until",
    "skip": "--skip",
}
"""How the command line calls an option, by its key in the file."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What an execution runs with, from its start to its end."""

    images: ImageSources = field(default_factory=ImageSources)
    until: tuple[str, ...] = ()
    """The steps that are carried out, with what they need; all of them without any."""
    skip: tuple[str, ...] = ()
    """The steps that are left out, with what reads them."""
    functions: Sequence[tuple[str, Handler]] = ()
    """Which handler stands for the Lambda functions whose ARN matches a pattern: the first that
    does."""
    later: Collection[str] = ()
    """Places in S3 that programs write while they run; inputs from there may be missing at
    first."""
    variables: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    """Shell commands by the step that each stands for."""
    given_models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Requests of models that no step makes, by name."""
    cores_per_job: int | None = None
    """Physical cores for each job; by default as many as let all Training steps that can run at
    one moment do so, at least 1. All jobs get the same number, because they are compared."""
    gpus: Sequence[str] | None = None
    """GPUs to use, as CUDA_VISIBLE_DEVICES names them; by default all of this machine, or those
    that the variable names. A job has as many to itself as it computes with."""
    max_parallel_steps: int | None = None
    """The most jobs at one moment, beside the definition's own limit."""
    use_cache: bool = True
    """Whether steps with a CacheConfig may take an earlier result."""
    own_root: bool | None = None
    """Whether each job gets a root of its own, with /opt/ml in it; by default where it can."""
    shared: Sequence[Path] = ()
    """Folders of this machine that jobs may write to even with a root of their own."""
    grace_seconds: float = DEFAULT_GRACE_SECONDS
    """Between SIGTERM and SIGKILL when a job is stopped."""

    def write(self, folder: Path) -> None:
        """Keep the options in an execution's folder. A variable that has the shell's own value may
        be a secret: its digest alone is kept."""
        document = _document(self)
        for name, value in self.variables.items():
            if os.environ.get(name) == value:
                document["variables"][name] = {"digest": _digest(folder, name, value)}
        write_json(folder / _FILE, document)

    def as_started(self, folder: Path) -> Options:
        """The options that the execution in `folder` was started with.

        Raises ExecutionError, with a sentence for each, where these say something else; whatever
        these leave at its default is taken as it was.
        """
        path, given, default = folder / _FILE, _document(self), _named(_document(Options()))
        try:
            stored = json.loads(path.read_bytes())
            changed = _take_variables(self, stored["variables"], folder)
            before = _named(stored)
            others = [
                name
                for name, value in _named(given).items()
                if value not in (default.get(name), before.get(name))
            ]
            if not others and not changed:
                return _read(stored, _firsts(self.functions))
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ExecutionError(f"{path} cannot be read: {error!r}") from error
        why = f"is not what execution {folder.name} was started with"
        raise ExecutionError(
            *(f"{each} {why}: leave it out, or start a new execution" for each in others),
            *(f"the shell's variable {each} {why}: set it again" for each in changed),
        )


def _take_variables(options: Options, stored: dict[str, Any], folder: Path) -> list[str]:
    """Put the shell's values in the place of their digests; returns those that have changed."""
    changed = []
    for name, value in stored.items():
        if isinstance(value, dict):
            stored[name] = options.variables.get(name, os.environ.get(name, ""))
            if _digest(folder, name, stored[name]) != value["digest"]:
                changed.append(name)
    return changed


def _named(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a document says, by how the command line calls it."""
    named: dict[str, Any] = {}
    for key, value in document.items():
        option = _COMMAND_LINE.get(key, key)
        if isinstance(value, dict):
            named |= {f"{option} {name}": each for name, each in value.items()}
        elif isinstance(value, bool):
            named[option] = value
        else:
            several = value if isinstance(value, list) else [value]
            named |= {f"{option} {each}": True for each in several}
    return named


def _document(options: Options) -> dict[str, Any]:
    """The options as JSON, with paths that mean the same in any folder."""
    document = {each.name: getattr(options, each.name) for each in fields(Options)}
    images: ImageSources = document.pop("images")
    return document | {
        "containers": None if images.root is None else str(images.root.absolute()),
        "images": {
            pattern: where if where == HERE else str(Path(where).expanduser().absolute())
            for pattern, where in _firsts(images.patterns).items()
        },
        "functions": {
            pattern: [str(handler.file.absolute()), handler.function]
            for pattern, handler in _firsts(options.functions).items()
        },
        "variables": dict(options.variables),
        "until": list(options.until),
        "skip": list(options.skip),
        "later": sorted(options.later),
        "gpus": None if options.gpus is None else list(options.gpus),
        "shared": [str(folder.absolute()) for folder in options.shared],
    }


def _read(stored: dict[str, Any], handlers: Mapping[str, Handler]) -> Options:
    """The options that a document says; the handlers' own variables are not in it."""
    root, images = stored.pop("containers"), stored.pop("images")
    functions = {
        pattern: handlers.get(pattern, Handler(Path(file), function))
        for pattern, (file, function) in stored.pop("functions").items()
    }
    shared = [Path(each) for each in stored.pop("shared")]
    until, skip = tuple(stored.pop("until")), tuple(stored.pop("skip"))
    return Options(
        **stored,
        until=until,
        skip=skip,
        shared=shared,
        images=ImageSources(None if root is None else Path(root), tuple(images.items())),
        functions=tuple(functions.items()),
    )


def _firsts(patterns: Sequence[tuple[str, Value]]) -> dict[str, Value]:
    """Values by pattern; the first of two equal patterns wins."""
    found: dict[str, Value] = {}
    for pattern, value in patterns:
        found.setdefault(pattern, value)
    return found


def _digest(folder: Path, name: str, value: str) -> str:
    return settings_digest({"execution": folder.name, name: value})
