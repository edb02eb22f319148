"""A processing job: CreateProcessingJob's container contract on a sandbox folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.document.evaluation import Unresolved
from compilegate.local.errors import StepRequestError
from compilegate.local.home.images import Environment
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.job import (
    INSTEAD,
    Instances,
    JobOutcome,
    Source,
    interpreter_for,
    one_of,
    read_instances,
    read_message,
    read_source,
    refuse_pipe,
)
from compilegate.local.jobs.launcher import JobEnd
from compilegate.local.jobs.leases import gpus_wanted
from compilegate.local.jobs.printed import MetricDefinition
from compilegate.local.jobs.sandbox import ML, Sandboxes, container_path
from compilegate.local.jobs.toolkit import resource_config
from compilegate.local.requests import ACCOUNT, RequestReader, iso_time


@dataclass(frozen=True)
class ProcessingInput:
    """Objects that appear in the folder `local_path` of the container."""

    source: Source
    local_path: str


@dataclass(frozen=True)
class ProcessingOutput:
    """The folder `local_path` of the container, which is stored at `uri`."""

    uri: str
    local_path: str


@dataclass(frozen=True)
class ProcessingRequest:
    """A CreateProcessingJob request, as far as a local run needs it."""

    image: str
    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    inputs: tuple[ProcessingInput, ...]
    outputs: tuple[ProcessingOutput, ...]
    max_seconds: int
    instances: Instances
    raw: Mapping[str, Any]
    """The whole resolved request, which DescribeProcessingJob echoes."""

    @property
    def gpus(self) -> int:
        """How many it computes with, where this machine has any."""
        return gpus_wanted(self.instances.kind, self.instances.count)

    @property
    def local_paths(self) -> tuple[str, ...]:
        """Every container folder that the request declares."""
        return tuple(path.local_path for path in (*self.inputs, *self.outputs))

    @property
    def input_uris(self) -> tuple[str, ...]:
        """Every object or prefix that must exist when the job starts."""
        return tuple(path.source.uri for path in self.inputs)

    @property
    def output_prefixes(self) -> tuple[str, ...]:
        """Below which the job's results will lie."""
        return tuple(path.uri for path in self.outputs)

    def job(self, name: str, sandboxes: Sandboxes, store: ObjectStore) -> ProcessingJob:
        """The job that is requested, in a sandbox of its own."""
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
            f"own here; {INSTEAD}"
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
        instances=read_instances(reader.section("ProcessingResources").section("ClusterConfig")),
        raw=raw,
    )


def _input(reader: RequestReader) -> ProcessingInput:
    where = f"input {reader.text('InputName')}"
    if not reader.has("S3Input"):
        raise StepRequestError(f"{where} has no S3Input; a DatasetDefinition needs AWS")
    s3 = reader.section("S3Input")
    refuse_pipe(s3.text_or("S3InputMode", "File"), where)
    one_of(s3, "S3CompressionType", ("None",), "None", where)
    return ProcessingInput(read_source(s3, where), _local_path(s3))


def _output(reader: RequestReader) -> ProcessingOutput:
    name = reader.text("OutputName")
    if not reader.has("S3Output"):
        raise StepRequestError(f"output {name} has no S3Output; a feature store needs AWS")
    s3 = reader.section("S3Output")
    return ProcessingOutput(s3.uri("S3Uri"), _local_path(s3))


def _local_path(reader: RequestReader) -> str:
    path = reader.text("LocalPath")
    if not isinstance(path, Unresolved):
        container_path(path)
    return path


class ProcessingJob:
    """Implements `compilegate.local.jobs.job.Job`."""

    def __init__(
        self, name: str, request: ProcessingRequest, sandboxes: Sandboxes, store: ObjectStore
    ) -> None:
        self.name = name
        self.sandbox = sandboxes.make(name, request.local_paths)
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
            files += path.source.place(self._store, self.sandbox.make(path.local_path))
        for path in self._request.outputs:
            self.sandbox.make(path.local_path)
        config = ML / "config"
        described = {**self._request.raw, **self._identity()}
        self.sandbox.write_json(config / "processingjobconfig.json", described)
        resources = resource_config(self._request.instances.kind)
        self.sandbox.write_json(config / "resourceconfig.json", resources)
        return files

    def _identity(self) -> dict[str, str]:
        return {"ProcessingJobName": self.name, "ProcessingJobArn": self.arn}

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

    def collect(self, end: JobEnd) -> None:
        """Store every output of a job that succeeded; what a failed one left may be half done."""
        for path in self._request.outputs if end.succeeded else ():
            self._store.upload_folder(self.sandbox.path(path.local_path), path.uri)

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
