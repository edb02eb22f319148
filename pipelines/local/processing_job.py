"""A processing job: CreateProcessingJob's container contract on a sandbox folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.local.images import Environment
from pipelines.local.job import ACCOUNT, JobOutcome, interpreter_for, iso_time, read_message
from pipelines.local.launcher import JobEnd
from pipelines.local.metrics import MetricDefinition
from pipelines.local.object_store import ObjectStore
from pipelines.local.processing_request import ProcessingRequest
from pipelines.local.sandbox import ML, Sandbox


class ProcessingJob:
    """Implements `pipelines.local.job.Job`."""

    def __init__(
        self, name: str, request: ProcessingRequest, folder: Path, store: ObjectStore
    ) -> None:
        self.name = name
        self.sandbox = Sandbox(folder, request.local_paths)
        self.metrics: Sequence[MetricDefinition] = ()
        self.max_seconds = request.max_seconds
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
            files += self._store.download(path.uri, self.sandbox.make(path.local_path))
        for path in self._request.outputs:
            self.sandbox.make(path.local_path)
        self._write_config("processingjobconfig", {**self._request.raw, **self._identity()})
        self._write_config("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1"]})
        return files

    def _identity(self) -> dict[str, str]:
        return {"ProcessingJobName": self.name, "ProcessingJobArn": self.arn}

    def _write_config(self, name: str, content: Mapping[str, Any]) -> None:
        path = self.sandbox.make(ML / "config") / f"{name}.json"
        path.write_text(json.dumps(content), encoding="utf-8")

    def argv(self, environment: Environment) -> list[str]:
        program, *rest = self._request.entrypoint
        command = [interpreter_for(program, environment), *rest, *self._request.arguments]
        return [self.sandbox.rewrite(part) for part in command]

    def variables(self, cores: int) -> dict[str, str]:
        own = {k: self.sandbox.rewrite(v) for k, v in self._request.environment.items()}
        return {"PROCESSING_JOB_NAME": self.name, "PROCESSING_JOB_ARN": self.arn, **own}

    def working_directory(self) -> Path:
        return self.sandbox.path(ML / "processing")

    def collect(self, end: JobEnd) -> None:
        """Store every output of a job that succeeded; what a failed one left may be half done."""
        if not end.succeeded:
            return
        for path in self._request.outputs:
            self._store.upload_folder(self.sandbox.path(path.local_path), path.uri)

    def message(self) -> str | None:
        return read_message(self.sandbox.path(ML / "output/message"))

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


# What describe() adds to the request, for checks before anything runs.
PROCESSING_PROPERTIES = (
    "ProcessingJobName",
    "ProcessingJobArn",
    "ProcessingJobStatus",
    "CreationTime",
    "ProcessingStartTime",
    "ProcessingEndTime",
    "LastModifiedTime",
    "ExitMessage",
    "FailureReason",
)
