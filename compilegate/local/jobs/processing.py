"""A processing job: CreateProcessingJob's container contract on a sandbox folder.

A CreateProcessingJob request, as far as a local run needs it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.document.evaluation import Unresolved
from compilegate.local.errors import StepRequestError
from compilegate.local.home.images import Environment
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.cluster.gathering import gather
from compilegate.local.jobs.cluster.hosts import (
    Host,
    members,
    reachable,
    read_hosts,
    resource_config,
)
from compilegate.local.jobs.inputs.channels import is_manifest, is_sharded, objects_of
from compilegate.local.jobs.job import Job, JobOutcome, interpreter_for, read_message
from compilegate.local.jobs.launcher import JobEnd
from compilegate.local.jobs.leases.gpus import gpus_wanted
from compilegate.local.jobs.printed.metrics import MetricDefinition
from compilegate.local.jobs.sandbox import ML, Sandboxes, container_path
from compilegate.local.requests import ACCOUNT, RequestReader, iso_time


@dataclass(frozen=True)
class ProcessingPath:
    """An input or output: objects at `uri` against the folder `local_path` in the container."""

    name: str
    uri: str
    local_path: str
    is_manifest: bool = False
    sharded: bool = False
    """Whether each host gets its share of the objects."""


@dataclass(frozen=True)
class ProcessingRequest:
    """What a processing job is asked to be."""

    image: str
    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    inputs: tuple[ProcessingPath, ...]
    outputs: tuple[ProcessingPath, ...]
    max_seconds: int
    hosts: tuple[Host, ...]
    raw: Mapping[str, Any]
    """The whole resolved request, which DescribeProcessingJob echoes."""

    @property
    def gpus(self) -> int:
        """How many it computes with, where this machine has any."""
        return sum(gpus_wanted(host.instance_type) for host in self.hosts)

    @property
    def local_paths(self) -> tuple[str, ...]:
        """Every container folder that the request declares."""
        return tuple(path.local_path for path in (*self.inputs, *self.outputs))

    @property
    def input_uris(self) -> tuple[str, ...]:
        """Every object or prefix that must exist when the job starts."""
        return tuple(path.uri for path in self.inputs)

    @property
    def output_prefixes(self) -> tuple[str, ...]:
        """Below which the job's results will lie."""
        return tuple(path.uri for path in self.outputs)

    def job(self, name: str, sandboxes: Sandboxes, store: ObjectStore) -> ProcessingJob:
        """The job that is asked for, in a sandbox of its own."""
        return ProcessingJob(name, self, sandboxes, store)


def read_processing_request(raw: Mapping[str, Any]) -> ProcessingRequest:
    """Read a resolved request.

    Raises StepRequestError for what is missing, mistyped or unsupported.
    """
    reader = RequestReader(raw)
    application = reader.section("AppSpecification")
    entrypoint = tuple(application.texts("ContainerEntrypoint"))
    if not entrypoint:
        raise StepRequestError(
            "AppSpecification.ContainerEntrypoint is missing: an image has no entry point of its "
            "own here; let a command do the step (--command), or leave it out (--skip)"
        )
    outputs = reader.section_or_empty("ProcessingOutputConfig").sections("Outputs")
    return ProcessingRequest(
        image=application.text("ImageUri"),
        entrypoint=entrypoint,
        arguments=tuple(application.texts("ContainerArguments")),
        environment=reader.variables("Environment"),
        inputs=tuple(_input(item) for item in reader.sections("ProcessingInputs")),
        outputs=tuple(_output(item) for item in outputs),
        max_seconds=reader.max_seconds(),
        hosts=read_hosts(
            reader.section_or_empty("ProcessingResources").section_or_empty("ClusterConfig")
        ),
        raw=raw,
    )


def _input(reader: RequestReader) -> ProcessingPath:
    name = reader.text("InputName")
    if not reader.has("S3Input"):
        raise StepRequestError(f"input {name} has no S3Input; a DatasetDefinition needs AWS")
    s3 = reader.section("S3Input")
    if s3.text_or("S3InputMode", "File") == "Pipe":
        raise StepRequestError(f"input {name}: S3InputMode Pipe is not supported here, use File")
    if s3.text_or("S3CompressionType", "None") != "None":
        raise StepRequestError(f"input {name}: S3CompressionType must be None here")
    where = f"input {name}"
    return ProcessingPath(
        name,
        s3.uri("S3Uri"),
        _local_path(s3),
        is_manifest=is_manifest(s3, where),
        sharded=is_sharded(s3, where),
    )


def _output(reader: RequestReader) -> ProcessingPath:
    name = reader.text("OutputName")
    if not reader.has("S3Output"):
        raise StepRequestError(f"output {name} has no S3Output; a feature store needs AWS")
    s3 = reader.section("S3Output")
    return ProcessingPath(name, s3.uri("S3Uri"), _local_path(s3))


def _local_path(reader: RequestReader) -> str:
    path = reader.text("LocalPath")
    if not isinstance(path, Unresolved):
        container_path(path)
    return path


class ProcessingJob:
    """Implements `compilegate.local.jobs.job.Job`."""

    def __init__(
        self,
        name: str,
        request: ProcessingRequest,
        sandboxes: Sandboxes,
        store: ObjectStore,
        *,
        rank: int = 0,
    ) -> None:
        self.name = name
        self.rank = rank
        self._hosts = reachable(request.hosts, own_root=sandboxes.own_root)
        self.host = self._hosts[rank].name
        self.sandbox = sandboxes.make(name, request.local_paths, members(self._hosts), rank)
        self.others: Sequence[Job] = [
            ProcessingJob(name, request, sandboxes, store, rank=other)
            for other in (range(1, len(self._hosts)) if rank == 0 else ())
        ]
        self.metrics: Sequence[MetricDefinition] = ()
        self.max_seconds = request.max_seconds
        self.gpus = request.gpus
        self.processes = 1
        self._request = request
        self._store = store

    @property
    def arn(self) -> str:
        return f"{ACCOUNT}:processing-job/{self.name}"

    def stage(self, environment: Environment) -> Sequence[Path]:
        for folder in ("processing", "output"):
            self.sandbox.make(ML / folder)
        files: list[Path] = []
        for path in self._request.inputs:
            share = (self.rank, len(self._hosts)) if path.sharded else (0, 1)
            found = objects_of(self._store, path.uri, share, manifest=path.is_manifest)
            files += self._store.place(found, self.sandbox.make(path.local_path))
        for path in self._request.outputs:
            self.sandbox.make(path.local_path)
        self._write_config("processingjobconfig", {**self._request.raw, **self._identity()})
        config = resource_config(self._hosts, self._hosts[self.rank])
        self._write_config("resourceconfig", config)
        return files

    def _identity(self) -> dict[str, str]:
        return {"ProcessingJobName": self.name, "ProcessingJobArn": self.arn}

    def _write_config(self, name: str, content: Mapping[str, Any]) -> None:
        path = self.sandbox.make(ML / "config") / f"{name}.json"
        path.write_text(json.dumps(content), encoding="utf-8")

    def feeding(self) -> AbstractContextManager[None]:
        return nullcontext()

    def argv(self, environment: Environment, cores: int, gpus: int) -> list[str]:
        del cores, gpus
        program, *rest = self._request.entrypoint
        command = [interpreter_for(program, environment), *rest, *self._request.arguments]
        return [self.sandbox.rewrite(part) for part in command]

    def variables(self, cores: int, gpus: int) -> dict[str, str]:
        own = {k: self.sandbox.rewrite(v) for k, v in self._request.environment.items()}
        return {"PROCESSING_JOB_NAME": self.name, "PROCESSING_JOB_ARN": self.arn, **own}

    def working_directory(self) -> str:
        return self.sandbox.inside(self.sandbox.path(ML / "processing"))

    def source_folder(self) -> Path | None:
        return None  # a processor that wants something installed does so in its command

    def collect(self, end: JobEnd) -> Iterable[str]:
        """Store every output of a job that succeeded; what a failed one left may be half done."""
        said: list[str] = []
        if not end.succeeded:
            return said
        for path in self._request.outputs:
            folder = self.sandbox.path(path.local_path)
            others = [(job.host, job.sandbox.path(path.local_path)) for job in self.others]
            said += gather(folder, others)
            self._store.upload_folder(folder, path.uri)
        return said

    def message(self) -> str | None:
        return read_message(self.sandbox.path(ML / "output/message"))

    def recorded_failure(self) -> str | None:
        return None

    def output_uris(self) -> Sequence[str]:
        return [path.uri for path in self._request.outputs]

    def describe(self, outcome: JobOutcome) -> dict[str, Any]:
        response = {
            **self._request.raw,
            **self._identity(),
            "ProcessingJobStatus": outcome.status,
            "CreationTime": iso_time(outcome.started),
            "ProcessingStartTime": iso_time(outcome.started),
            "ProcessingEndTime": iso_time(outcome.ended),
            "LastModifiedTime": iso_time(outcome.ended),
        }
        message = self.message()
        if message is not None:
            response["ExitMessage"] = message
        if outcome.failure is not None:
            response["FailureReason"] = outcome.failure
        return response
