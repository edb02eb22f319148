"""A processing job: CreateProcessingJob's container contract on a sandbox folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compilegate.local.errors import StepRequestError
from compilegate.local.jobs.job import (
    Input,
    Job,
    JobOutcome,
    Output,
    read_input,
    read_instances,
    read_local_path,
)
from compilegate.local.requests import INSTEAD, RequestReader


class ProcessingJob(Job):
    """One processing job."""

    kind = "Processing"
    start_folder = "processing"
    config_folder = "config"
    message_file = "output/message"

    def stage(self) -> list[Path]:
        self.write_config("processingjobconfig", {**self.raw, **self.identity})
        return super().stage()

    def describe(self, outcome: JobOutcome) -> dict[str, Any]:
        message = self.message()
        told = {} if message is None else {"ExitMessage": message}
        return {**super().describe(outcome), **told}


def read_processing_request(raw: Mapping[str, Any]) -> ProcessingJob:
    """Read a resolved request. Raises StepRequestError."""
    reader = RequestReader(raw)
    application = reader.section("AppSpecification")
    entrypoint = tuple(application.texts("ContainerEntrypoint"))
    if not entrypoint:
        raise StepRequestError(
            "AppSpecification.ContainerEntrypoint is missing: an image has no entry point of its "
            f"own here; {INSTEAD}"
        )
    cluster = reader.section("ProcessingResources").section("ClusterConfig")
    instance_type, instances = read_instances(cluster)
    outputs = reader.section_or_empty("ProcessingOutputConfig").sections("Outputs")
    return ProcessingJob(
        image=application.text("ImageUri"),
        entrypoint=entrypoint,
        arguments=tuple(application.texts("ContainerArguments")),
        environment=reader.variables("Environment"),
        inputs=tuple(_input(item) for item in reader.sections("ProcessingInputs")),
        outputs=tuple(_output(item) for item in outputs),
        instance_type=instance_type,
        processes=instances,
        max_seconds=reader.max_seconds(),
        raw=raw,
    )


def _input(reader: RequestReader) -> Input:
    name = reader.text("InputName")
    if not reader.has("S3Input"):
        raise StepRequestError(f"input {name} has no S3Input; a DatasetDefinition needs AWS")
    s3 = reader.section("S3Input")
    s3.one_of("S3InputMode", "File")
    s3.one_of("S3CompressionType", "None")
    return read_input(s3, read_local_path(s3), name)


def _output(reader: RequestReader) -> Output:
    name = reader.text("OutputName")
    if not reader.has("S3Output"):
        raise StepRequestError(f"output {name} has no S3Output; a feature store needs AWS")
    s3 = reader.section("S3Output")
    return Output(s3.uri("S3Uri"), read_local_path(s3))
