"""What training and processing jobs have in common: what a job is to the step that runs it, its
instances, and its inputs.

A job on N instances is N times the processes on one host, this machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from compilegate.document.evaluation import Unresolved
from compilegate.local.errors import ObjectStoreError, StepRequestError
from compilegate.local.home.images import Environment
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.launcher import JobEnd
from compilegate.local.jobs.printed import MetricDefinition
from compilegate.local.jobs.sandbox import Sandbox
from compilegate.local.requests import RequestReader

PYTHON_NAMES = ("python", "python3")
_PREFIX, _MANIFEST, _AUGMENTED = "S3Prefix", "ManifestFile", "AugmentedManifestFile"
_SHARDED, _REPLICATED = "ShardedByS3Key", "FullyReplicated"
_MOST_INSTANCES = 16
INSTEAD = "let a command of yours do the step (--command), or leave it out (--skip)"
"""What to do about a step that cannot run here."""


@dataclass(frozen=True)
class JobOutcome:
    """A job that has ended, for its Describe* response."""

    status: str
    """Completed, Failed or Stopped."""
    started: float
    ended: float
    """Seconds since the epoch."""
    failure: str | None
    metrics: Sequence[Mapping[str, Any]] = ()
    timed_out: bool = False


class Job(Protocol):
    """One job, from its empty sandbox to its Describe* response."""

    name: str
    sandbox: Sandbox
    metrics: Sequence[MetricDefinition]
    max_seconds: int
    gpus: int
    """How many it computes with, where this machine has any."""
    processes: int
    """How many of its processes compute side by side: each has work for a core."""

    def stage(self, environment: Environment) -> Sequence[Path]:
        """Fill the sandbox; return the input files. Raises StepError."""

    def argv(self, environment: Environment, cores: int, gpus: int) -> list[str]:
        """The program and its arguments, container paths rewritten."""

    def variables(self, cores: int, gpus: int) -> dict[str, str]:
        """The environment variables beyond those that every job has."""

    def working_directory(self) -> str:
        """Where the program starts, as the job sees it."""

    def source_folder(self) -> Path | None:
        """Where its source lies, if what a requirements.txt or a setup.py there names is to be
        installed before it starts."""

    def collect(self, end: JobEnd) -> None:
        """Store the results. Raises StepError."""

    def message(self) -> str | None:
        """What the job wrote for people about its end, if it did."""

    def recorded_failure(self) -> str | None:
        """Why a job that ended well did not do what it was for, where it says so."""

    def output_uris(self) -> Sequence[str]:
        """Where the results are, once they are stored."""

    def describe(self, outcome: JobOutcome) -> dict[str, Any]:
        """The Describe* response."""


def interpreter_for(program: str, environment: Environment) -> str:
    """`python` and `python3` are the image's interpreter, with or without a folder before them."""
    name = program.rpartition("/")[2]
    return str(environment.python) if name in PYTHON_NAMES else program


def read_message(path: Path) -> str | None:
    """The text of a file in which a job explains its end; at most 1024 characters."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
    return text[:1024] or None


@dataclass(frozen=True)
class Instances:
    """The instances that a job would have on SageMaker."""

    kind: str = "local"
    count: int = 1


def read_instances(resources: RequestReader) -> Instances:
    """What a ResourceConfig or a ClusterConfig says. Raises StepRequestError."""
    groups = resources.sections("InstanceGroups")
    if len(groups) > 1:
        raise StepRequestError(
            f"InstanceGroups names {len(groups)} groups of instances, and a job has one host here: "
            f"train with one group; or {INSTEAD}"
        )
    section = groups[0] if groups else resources
    count = section.integer_or("InstanceCount", 1)
    if not 1 <= count <= _MOST_INSTANCES:
        raise StepRequestError(
            f"InstanceCount is {count}, allowed here: 1 to {_MOST_INSTANCES}, because all their "
            "processes run on this machine"
        )
    return Instances(section.text_or("InstanceType", "local"), count)


@dataclass(frozen=True)
class Source:
    """The objects of an input: those at and below a URI, or those that a manifest there names."""

    uri: str
    is_manifest: bool
    sharded: bool
    """Whether each host would get its share; the one host here gets all."""

    @property
    def distribution(self) -> str:
        """S3DataDistributionType."""
        return _SHARDED if self.sharded else _REPLICATED

    def place(self, store: ObjectStore, folder: Path) -> list[Path]:
        """Place the objects into `folder`; return the files.

        Raises ObjectStoreError where one is absent, StepRequestError for what is no manifest.
        """
        entries = _manifest_entries if self.is_manifest else ObjectStore.objects
        return store.place(entries(store, self.uri), folder)


def read_source(s3: RequestReader, where: str) -> Source:
    """An S3DataSource or S3Input. Raises StepRequestError, `where` first."""
    if s3.text_or("S3DataType", _PREFIX) == _AUGMENTED:
        raise StepRequestError(
            f"{where}: S3DataType {_AUGMENTED} is read through a pipe, which is not done here; "
            f"name the objects by {_PREFIX} or {_MANIFEST}, or {INSTEAD}"
        )
    kind = one_of(s3, "S3DataType", (_PREFIX, _MANIFEST), _PREFIX, where)
    allowed = (_REPLICATED, _SHARDED)
    distribution = one_of(s3, "S3DataDistributionType", allowed, _REPLICATED, where)
    return Source(s3.uri("S3Uri"), kind == _MANIFEST, distribution == _SHARDED)


def one_of(
    reader: RequestReader, key: str, allowed: Sequence[str], default: str, where: str
) -> str:
    """A member that has one of a few values. Raises StepRequestError, `where` first."""
    value = reader.text_or(key, default)
    if not isinstance(value, Unresolved) and value not in allowed:
        raise StepRequestError(
            f"{where}: {key} is {value!r:.80}, allowed here: {', '.join(allowed)}"
        )
    return value


def refuse_pipe(mode: str, where: str) -> None:
    """Raise StepRequestError for an input that is read through a pipe."""
    if mode == "Pipe":
        raise StepRequestError(
            f"{where}: input mode Pipe is not supported here; use File or FastFile, or {INSTEAD}"
        )


def _manifest_entries(store: ObjectStore, uri: str) -> list[tuple[Path, str]]:
    """The files that a manifest names, each with its key below the prefix."""
    prefix, keys = _read_manifest(store.read(uri), uri)
    found = []
    for key in keys:
        file = store.path(prefix + key)
        if not file.is_file():
            raise ObjectStoreError(f"{prefix}{key}, which the manifest {uri} names, is absent")
        found.append((file, key))
    if not found:
        raise ObjectStoreError(f"the manifest {uri} names no objects")
    return found


def _read_manifest(content: bytes, uri: str) -> tuple[str, list[str]]:
    expected = 'a list of {"prefix": "s3://..."} and keys below it'
    try:
        read: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        sentence = f"the manifest {uri} is no JSON ({error}), expected {expected}"
        raise StepRequestError(sentence) from error
    if not isinstance(read, list) or not read or not isinstance(read[0], dict):
        raise StepRequestError(f"the manifest {uri} is not {expected}")
    prefix, keys = read[0].get("prefix"), read[1:]
    if not isinstance(prefix, str) or not all(isinstance(key, str) for key in keys):
        raise StepRequestError(f"the manifest {uri} is not {expected}")
    return prefix, keys
