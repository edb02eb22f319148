"""A CreateTrainingJob request, as far as a local run needs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.local.errors import RequestError
from pipelines.local.metrics import MetricDefinition
from pipelines.local.request import RequestReader
from pipelines.semantics.expressions import Unresolved

DEFAULT_MAX_SECONDS = 86400


@dataclass(frozen=True)
class Channel:
    """One input: the objects at `uri` appear in /opt/ml/input/data/NAME."""

    name: str
    uri: str
    content_type: str | None


@dataclass(frozen=True)
class Checkpoints:
    """A folder that is filled from `uri` before the job and stored there after it."""

    uri: str
    local_path: str


@dataclass(frozen=True)
class TrainingRequest:
    """What a training job is asked to be."""

    image: str
    entrypoint: tuple[str, ...]
    """ContainerEntrypoint; empty when the toolkit starts the script."""
    arguments: tuple[str, ...]
    metrics: tuple[MetricDefinition, ...]
    hyperparameters: Mapping[str, str]
    environment: Mapping[str, str]
    channels: tuple[Channel, ...]
    output_uri: str
    checkpoints: Checkpoints | None
    instance_type: str
    max_seconds: int
    raw: Mapping[str, Any]
    """The whole resolved request, which DescribeTrainingJob echoes."""

    @property
    def source_uri(self) -> str | None:
        """The source archive, from the sagemaker_submit_directory hyperparameter: an object, or a
        path in the container, where a channel brings it (as in network isolation)."""
        return self._text_hyperparameter("sagemaker_submit_directory")

    @property
    def program(self) -> str | None:
        """The script's path in the source archive, from sagemaker_program."""
        return self._text_hyperparameter("sagemaker_program")

    def _text_hyperparameter(self, name: str) -> str | None:
        # Reserved hyperparameters hold JSON strings; plain ones are what people write by hand.
        value = self.hyperparameters.get(name)
        if value is None or isinstance(value, Unresolved):
            return value
        return value[1:-1] if re.fullmatch(r'"[^"\\]*"', value) else value

    @property
    def input_uris(self) -> tuple[str, ...]:
        """Every object or prefix that must exist when the job starts."""
        source = self.source_uri
        channels = tuple(channel.uri for channel in self.channels)
        return channels if source is None or in_container(source) else (*channels, source)


def in_container(source: str) -> bool:
    """Whether a source archive is a path in the container."""
    return not isinstance(source, Unresolved) and source.startswith("/")


def read_training_request(raw: Mapping[str, Any]) -> TrainingRequest:
    """Read a resolved request. Raises RequestError for what is missing, mistyped or unsupported."""
    reader = RequestReader(raw)
    algorithm = reader.section("AlgorithmSpecification")
    request = TrainingRequest(
        image=algorithm.text("TrainingImage"),
        entrypoint=tuple(algorithm.texts("ContainerEntrypoint")),
        arguments=tuple(algorithm.texts("ContainerArguments")),
        metrics=tuple(_metric(item) for item in algorithm.sections("MetricDefinitions")),
        hyperparameters=reader.text_map("HyperParameters"),
        environment=reader.text_map("Environment"),
        channels=tuple(_channel(item) for item in reader.sections("InputDataConfig")),
        output_uri=reader.section("OutputDataConfig").text("S3OutputPath"),
        checkpoints=_checkpoints(reader),
        instance_type=reader.section("ResourceConfig").text_or("InstanceType", "local"),
        max_seconds=reader.section_or_empty("StoppingCondition").integer_or(
            "MaxRuntimeInSeconds", DEFAULT_MAX_SECONDS
        ),
        raw=raw,
    )
    if not request.entrypoint and not (request.program and request.source_uri):
        raise RequestError(
            "HyperParameters need sagemaker_program and sagemaker_submit_directory, "
            "or AlgorithmSpecification a ContainerEntrypoint: nothing says what to run"
        )
    if request.program is not None and not _is_plain_path(request.program):
        raise RequestError(
            f"sagemaker_program is {request.program!r}, expected a path in the source archive"
        )
    return request


def _is_plain_path(program: str) -> bool:
    # The toolkit's own rule: nothing that a command line could take for an option or a way out.
    parts = program.split("/")
    return isinstance(program, Unresolved) or (
        re.fullmatch(r"[A-Za-z0-9._+/\-]+", program) is not None
        and not program.startswith("-")
        and all(part not in {"", ".", ".."} for part in parts)
    )


def _metric(reader: RequestReader) -> MetricDefinition:
    name, expression = reader.text("Name"), reader.text("Regex")
    try:
        return MetricDefinition(name, re.compile(expression))
    except re.error as error:
        raise RequestError(f"the Regex of metric {name} is malformed: {error}") from error


def _channel(reader: RequestReader) -> Channel:
    name = reader.text("ChannelName")
    if not re.fullmatch(r"[A-Za-z0-9.\-_]+", name) or name in {".", ".."}:
        raise RequestError(f"ChannelName {name!r} may hold letters, digits, '.', '-' and '_'")
    source = reader.section("DataSource")
    if not source.has("S3DataSource"):
        raise RequestError(f"channel {name} has no S3DataSource; FSx and EFS are not mounted here")
    s3 = source.section("S3DataSource")
    if s3.text_or("S3DataType", "S3Prefix") != "S3Prefix":
        raise RequestError(f"channel {name}: S3DataType must be S3Prefix here")
    if reader.text_or("CompressionType", "None") != "None":
        raise RequestError(f"channel {name}: CompressionType must be None here")
    if reader.text_or("RecordWrapperType", "None") != "None":
        raise RequestError(f"channel {name}: RecordWrapperType must be None here")
    if reader.text_or("InputMode", "File") == "Pipe":
        raise RequestError(f"channel {name}: InputMode Pipe is not supported here, use File")
    content_type = reader.text("ContentType") if reader.has("ContentType") else None
    return Channel(name, s3.text("S3Uri"), content_type)


def _checkpoints(reader: RequestReader) -> Checkpoints | None:
    if not reader.has("CheckpointConfig"):
        return None
    section = reader.section("CheckpointConfig")
    return Checkpoints(section.text("S3Uri"), section.text_or("LocalPath", "/opt/ml/checkpoints"))
