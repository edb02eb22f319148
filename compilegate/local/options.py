"""How an execution is carried out here, beside its definition and its parameters.

    HOME/executions/ID/options.json

A resumed execution takes the options that it was started with: results of two environments in one
execution would be compared as if they came from one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from compilegate.job.files import settings_digest, write_json
from compilegate.local.errors import ExecutionError
from compilegate.local.home.images import HERE, ImageSources
from compilegate.local.jobs.calls import FunctionSources, Handler
from compilegate.local.selection import Selection

DEFAULT_GRACE_SECONDS = 10.0
Where = TypeVar("Where")
_FILE = "options.json"
_SPOKEN = {
    "containers": "the folder of images",
    "images": "--image",
    "functions": "--function",
    "models": "--model",
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
    """What an execution runs with, for as long as it lasts."""

    images: ImageSources = field(default_factory=ImageSources)
    """Which Python environments stand for the images."""
    selection: Selection = field(default_factory=Selection)
    """Which steps are carried out."""
    functions: FunctionSources = field(default_factory=FunctionSources)
    """Which files stand for the functions of Lambda steps."""
    later: Collection[str] = ()
    """Where in S3 programs put objects while they run: inputs from there need not be there now."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What is passed to the environment of every job on purpose."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """By step, the shell command that stands for it."""
    given_models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name, the requests of models that no step of the definition makes."""
    cores: Collection[int] | None = None
    """CPU ids to use; by default all that this process may use."""
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
        """Keep the options in an execution's folder.

        A variable that has the shell's own value may be a secret: its digest alone is kept.
        """
        document = _document(self)
        document["variables"] = {
            name: {"digest": _digest(folder, name, value)}
            if os.environ.get(name) == value
            else value
            for name, value in self.variables.items()
        }
        write_json(folder / _FILE, document)

    def as_started(self, folder: Path) -> Self:
        """The options that the execution in `folder` was started with.

        Raises ExecutionError, with a sentence for each, where these say something else; whatever
        these leave at its default is taken as it was.
        """
        path = folder / _FILE
        if not path.is_file():  # an earlier version kept none
            return self
        try:
            kept = json.loads(path.read_bytes())
            _follow_moves(self, kept)
            changed = _take_variables(self, kept, folder)
            others = _others(self, kept)
            if not changed and not others:
                return replace(self, **_fields(self, kept))
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ExecutionError(f"{path} cannot be read: {error!r}") from error
        said = f"is not what execution {folder.name} was started with"
        raise ExecutionError(
            *(f"{each} {said}: leave it out, or start a new execution" for each in others),
            *(f"the shell's variable {each} {said}: set it again" for each in changed),
        )


def _follow_moves(options: Options, kept: dict[str, Any]) -> None:
    """Take the given path of what is no longer where it was: the project has been moved."""
    given = _document(options)
    root = kept["containers"]
    if root is not None and not Path(root).exists() and given["containers"] is not None:
        kept["containers"] = given["containers"]
    for pattern, (file, function) in kept["functions"].items():
        own = given["functions"].get(pattern)
        if own is not None and own[1] == function and not Path(file).exists():
            kept["functions"][pattern] = own


def _take_variables(options: Options, kept: dict[str, Any], folder: Path) -> list[str]:
    """Put the shell's values in the place of their digests; returns those that have changed."""
    changed = []
    for name, value in kept["variables"].items():
        if isinstance(value, dict):
            now = options.variables.get(name, os.environ.get(name))
            if now is not None and _digest(folder, name, now) == value["digest"]:
                kept["variables"][name] = now
            else:
                changed.append(name)
                kept["variables"][name] = options.variables.get(name)
    return changed


def _others(options: Options, kept: Mapping[str, Any]) -> list[str]:
    """What these options say and the kept ones do not, as the command line calls it."""
    given, default, found = _document(options), _document(Options()), []
    for key, value in given.items():
        name = _SPOKEN.get(key, key)
        if isinstance(value, dict):
            own = kept[key]
            found += [f"{name} {it}" for it in value if it not in own or own[it] != value[it]]
        elif isinstance(value, list) and key in {"later", "shared", "skip", "until"}:
            found += [f"{name} {each}" for each in value if each not in kept[key]]
        elif value not in (default[key], kept[key]):
            found.append(f"{name} {value}" if key != "use_cache" else name)
    return found


def _fields(options: Options, kept: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as the kept document says them."""
    own = dict(options.functions.patterns)  # with their environments, which are not kept
    functions = tuple(
        (pattern, own.get(pattern, Handler(Path(file), function)))
        for pattern, (file, function) in kept["functions"].items()
    )
    root = kept["containers"]
    images = tuple((str(pattern), str(where)) for pattern, where in kept["images"].items())
    plain = ("commands", "cores", "cores_per_job", "gpus", "max_parallel_steps", "use_cache")
    return {
        **{name: kept[name] for name in (*plain, "own_root", "grace_seconds", "later")},
        "images": ImageSources(None if root is None else Path(root), images),
        "functions": FunctionSources(functions),
        "variables": dict(kept["variables"]),
        "given_models": dict(kept["models"]),
        "selection": Selection(tuple(kept["until"]), tuple(kept["skip"])),
        "shared": tuple(Path(each) for each in kept["shared"]),
    }


def _document(options: Options) -> dict[str, Any]:
    """The options as JSON, with paths that mean the same in any folder."""
    root = options.images.root
    return {
        "containers": None if root is None else str(root.absolute()),
        # The first of two equal patterns is the one that counts.
        "images": {
            pattern: where if where == HERE else str(Path(where).expanduser().absolute())
            for pattern, where in _firsts(options.images.patterns)
        },
        "functions": {
            pattern: [str(handler.file.absolute()), handler.function]
            for pattern, handler in _firsts(options.functions.patterns)
        },
        "models": dict(options.given_models),
        "commands": dict(options.commands),
        "until": list(options.selection.until),
        "skip": list(options.selection.skip),
        "variables": dict(options.variables),
        "later": sorted(options.later),
        "shared": [str(folder.absolute()) for folder in options.shared],
        "cores": None if options.cores is None else sorted(options.cores),
        "cores_per_job": options.cores_per_job,
        "gpus": None if options.gpus is None else list(options.gpus),
        "max_parallel_steps": options.max_parallel_steps,
        "use_cache": options.use_cache,
        "own_root": options.own_root,
        "grace_seconds": options.grace_seconds,
    }


def _firsts(patterns: Sequence[tuple[str, Where]]) -> list[tuple[str, Where]]:
    return [each for n, each in enumerate(patterns) if each[0] not in dict(patterns[:n])]


def _digest(folder: Path, name: str, value: str) -> str:
    return settings_digest({"execution": folder.name, name: value})
