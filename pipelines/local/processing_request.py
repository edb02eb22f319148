"""A CreateProcessingJob request, as far as a local run needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.local.errors import RequestError
from pipelines.local.request import RequestReader
from pipelines.local.sandbox import container_path
from pipelines.semantics.expressions import Unresolved

DEFAULT_MAX_SECONDS = 86400


@dataclass(frozen=True)
class ProcessingPath:
    """An input or output: objects at `uri` against the folder `local_path` in the container."""

    name: str
    uri: str
    local_path: str


@dataclass(frozen=True)
class ProcessingRequest:
    """What a processing job is asked to be."""

    image: str
    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    inputs: tuple[ProcessingPath, ...]
    outputs: tuple[ProcessingPath, ...]
    instance_type: str
    max_seconds: int
    raw: Mapping[str, Any]
    """The whole resolved request, which DescribeProcessingJob echoes."""

    @property
    def local_paths(self) -> tuple[str, ...]:
        """Every container folder that the request declares."""
        return tuple(path.local_path for path in (*self.inputs, *self.outputs))

    @property
    def input_uris(self) -> tuple[str, ...]:
        """Every object or prefix that must exist when the job starts."""
        return tuple(path.uri for path in self.inputs)


def read_processing_request(raw: Mapping[str, Any]) -> ProcessingRequest:
    """Read a resolved request. Raises RequestError for what is missing, mistyped or unsupported."""
    reader = RequestReader(raw)
    application = reader.section("AppSpecification")
    entrypoint = tuple(application.texts("ContainerEntrypoint"))
    if not entrypoint:
        raise RequestError(
            "AppSpecification.ContainerEntrypoint is missing: an image has no entry point of its "
            "own here"
        )
    cluster = reader.section("ProcessingResources").section("ClusterConfig")
    outputs = reader.section_or_empty("ProcessingOutputConfig").sections("Outputs")
    return ProcessingRequest(
        image=application.text("ImageUri"),
        entrypoint=entrypoint,
        arguments=tuple(application.texts("ContainerArguments")),
        environment=reader.text_map("Environment"),
        inputs=tuple(_input(item) for item in reader.sections("ProcessingInputs")),
        outputs=tuple(_output(item) for item in outputs),
        instance_type=cluster.text_or("InstanceType", "local"),
        max_seconds=reader.section_or_empty("StoppingCondition").integer_or(
            "MaxRuntimeInSeconds", DEFAULT_MAX_SECONDS
        ),
        raw=raw,
    )


def _input(reader: RequestReader) -> ProcessingPath:
    name = reader.text("InputName")
    if not reader.has("S3Input"):
        raise RequestError(f"input {name} has no S3Input; a DatasetDefinition needs AWS")
    s3 = reader.section("S3Input")
    if s3.text_or("S3DataType", "S3Prefix") != "S3Prefix":
        raise RequestError(f"input {name}: S3DataType must be S3Prefix here")
    if s3.text_or("S3InputMode", "File") == "Pipe":
        raise RequestError(f"input {name}: S3InputMode Pipe is not supported here, use File")
    if s3.text_or("S3CompressionType", "None") != "None":
        raise RequestError(f"input {name}: S3CompressionType must be None here")
    return ProcessingPath(name, s3.text("S3Uri"), _local_path(s3))


def _output(reader: RequestReader) -> ProcessingPath:
    name = reader.text("OutputName")
    if not reader.has("S3Output"):
        raise RequestError(f"output {name} has no S3Output; a feature store needs AWS")
    s3 = reader.section("S3Output")
    return ProcessingPath(name, s3.text("S3Uri"), _local_path(s3))


def _local_path(reader: RequestReader) -> str:
    path = reader.text("LocalPath")
    if not isinstance(path, Unresolved):
        container_path(path)
    return path
