"""A training job: CreateTrainingJob's container contract on a sandbox folder."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compilegate.document.evaluation import Unresolved
from compilegate.job.names import (
    DISTRIBUTION,
    MODEL_ARCHIVE,
    MOST_PROCESSES,
    OUTPUT_ARCHIVE,
    PROCESSES,
    PROCESSES_VARIABLE,
    TORCHRUN,
)
from compilegate.local import xgboost
from compilegate.local.errors import StepError, StepRequestError
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
from compilegate.local.jobs.sandbox import ML, Sandboxes, pack_folder, unpack_source
from compilegate.local.jobs.toolkit import (
    TrainingContainer,
    resource_config,
    script_command,
    toolkit_environment,
)
from compilegate.local.requests import ACCOUNT, RequestReader, iso_time

_FILE = "File"


@dataclass(frozen=True)
class Channel:
    """One input: its objects appear in /opt/ml/input/data/NAME."""

    name: str
    source: Source
    content_type: str | None

    def config(self) -> dict[str, str]:
        """Its part of inputdataconfig.json."""
        config = {
            "TrainingInputMode": _FILE,
            "S3DistributionType": self.source.distribution,
            "RecordWrapperType": "None",
        }
        return config if self.content_type is None else {**config, "ContentType": self.content_type}


@dataclass(frozen=True)
class Checkpoints:
    """A folder that is filled from `uri` before the job and stored there after it."""

    uri: str
    local_path: str


@dataclass(frozen=True)
class TrainingRequest:
    """A CreateTrainingJob request, as far as a local run needs it."""

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
    instances: Instances
    max_seconds: int
    raw: Mapping[str, Any]
    """The whole resolved request, which DescribeTrainingJob echoes."""
    algorithm: str | None = None
    """The built-in algorithm that trains, where the request names no program of its own."""

    @property
    def source_uri(self) -> str | None:
        """The source archive, from the sagemaker_submit_directory hyperparameter: an object, or a
        path in the container, where a channel brings it (as in network isolation)."""
        return self._text_hyperparameter("sagemaker_submit_directory")

    @property
    def program(self) -> str | None:
        """The script's path in the source archive, from sagemaker_program."""
        return self._text_hyperparameter("sagemaker_program")

    @property
    def processes(self) -> int:
        """How many compute side by side: what its launcher starts, on each of its instances."""
        told = self.environment.get(PROCESSES_VARIABLE)
        if self.by_own_torchrun:
            told = self._text_hyperparameter(PROCESSES)
        is_number = told is not None and re.fullmatch(r"[1-9]\d{0,3}", told) is not None
        return (int(told or 1) if is_number else 1) * self.instances.count

    @property
    def by_own_torchrun(self) -> bool:
        """Whether the built-in training program starts the processes."""
        return self._text_hyperparameter(DISTRIBUTION) == TORCHRUN

    @property
    def gpus(self) -> int:
        """How many it computes with, where this machine has any: one for each process."""
        return gpus_wanted(self.instances.kind, self.processes)

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
        channels = tuple(channel.source.uri for channel in self.channels)
        return channels if source is None or in_container(source) else (*channels, source)

    @property
    def output_prefixes(self) -> tuple[str, ...]:
        """Below which the job's results will lie."""
        return (self.output_uri,)

    def job(self, name: str, sandboxes: Sandboxes, store: ObjectStore) -> TrainingJob:
        """The job that is requested, in a sandbox of its own."""
        return TrainingJob(name, self, sandboxes, store)


def in_container(source: str) -> bool:
    """Whether a source archive is a path in the container."""
    return not isinstance(source, Unresolved) and source.startswith("/")


def read_training_request(raw: Mapping[str, Any]) -> TrainingRequest:
    """Read a resolved request.

    Raises StepRequestError for what is missing, mistyped or unsupported.
    """
    reader = RequestReader(raw)
    algorithm = reader.section("AlgorithmSpecification")
    mode = algorithm.text_or("TrainingInputMode", _FILE)
    request = TrainingRequest(
        image=algorithm.text("TrainingImage"),
        entrypoint=tuple(algorithm.texts("ContainerEntrypoint")),
        arguments=tuple(algorithm.texts("ContainerArguments")),
        metrics=tuple(_metric(item) for item in algorithm.sections("MetricDefinitions")),
        hyperparameters=reader.text_map("HyperParameters"),
        environment=reader.variables("Environment"),
        channels=tuple(_channel(item, mode) for item in reader.sections("InputDataConfig")),
        output_uri=reader.section("OutputDataConfig").uri("S3OutputPath"),
        checkpoints=_checkpoints(reader),
        instances=read_instances(reader.section("ResourceConfig")),
        max_seconds=reader.max_seconds(),
        raw=raw,
    )
    request = _on_one_host(request)
    unknown = isinstance(request.image, Unresolved)
    built_in = None if unknown else xgboost.algorithm_of(request.image)
    if request.entrypoint or (request.program and request.source_uri):
        if request.program is not None and not _is_plain_path(request.program):
            raise StepRequestError(
                f"sagemaker_program is {request.program!r}, expected a path in the source archive"
            )
        return _with_metrics(request) if built_in == xgboost.XGBOOST else request
    if built_in is None or request.program is not None:
        raise StepRequestError(
            "HyperParameters need sagemaker_program and sagemaker_submit_directory, "
            "or AlgorithmSpecification a ContainerEntrypoint: nothing says what to run, because an "
            f"image has no entry point of its own here; {INSTEAD}"
        )
    if built_in != xgboost.XGBOOST:
        raise StepRequestError(xgboost.REFUSAL.format(built_in))
    return replace(_with_metrics(request), algorithm=built_in)


def _on_one_host(request: TrainingRequest) -> TrainingRequest:
    """The request whose launcher starts the processes of all instances on one host."""
    if request.instances.count == 1:
        return request
    if request.processes > MOST_PROCESSES:
        raise StepRequestError(
            f"InstanceCount and the processes of each instance are {request.processes} processes "
            f"on this machine, allowed here: {MOST_PROCESSES}"
        )
    hyperparameters, environment = dict(request.hyperparameters), dict(request.environment)
    if request.by_own_torchrun and PROCESSES in hyperparameters:
        hyperparameters[PROCESSES] = str(request.processes)
    elif PROCESSES_VARIABLE in environment:
        environment[PROCESSES_VARIABLE] = str(request.processes)
    else:
        return request
    return replace(
        request,
        hyperparameters=hyperparameters,
        environment=environment,
        instances=replace(request.instances, count=1),
    )


def _with_metrics(request: TrainingRequest) -> TrainingRequest:
    """The request with the metrics that its image defines, but for those that it defines itself."""
    declared = {metric.name for metric in request.metrics}
    own = xgboost.metrics(request.hyperparameters)
    added = [MetricDefinition(*each) for each in own if each[0] not in declared]
    return replace(request, metrics=(*request.metrics, *added))


def _is_plain_path(program: str) -> bool:
    # The toolkit's own rule: nothing that a command line could take for an option or a way out.
    parts = program.split("/")
    return isinstance(program, Unresolved) or (
        re.fullmatch(r"[A-Za-z0-9._+/\-]+", program) is not None
        and not program.startswith("-")
        and all(part not in {"", ".", ".."} for part in parts)
    )


def _metric(reader: RequestReader) -> MetricDefinition:
    definition = MetricDefinition(reader.text("Name"), reader.text("Regex"))
    definition.check()
    return definition


def _channel(reader: RequestReader, mode: str) -> Channel:
    """One member of InputDataConfig; `mode` is the job's own."""
    name = reader.text("ChannelName")
    if not re.fullmatch(r"[A-Za-z0-9.\-_]+", name) or name in {".", ".."}:
        raise StepRequestError(f"ChannelName {name!r} may hold letters, digits, '.', '-' and '_'")
    where = f"channel {name}"
    source = reader.section("DataSource")
    if not source.has("S3DataSource"):
        raise StepRequestError(f"{where} has no S3DataSource; FSx and EFS are not mounted here")
    refuse_pipe(reader.text_or("InputMode", mode), where)
    one_of(reader, "InputMode", (_FILE, "FastFile"), mode, where)
    one_of(reader, "RecordWrapperType", ("None",), "None", where)
    one_of(reader, "CompressionType", ("None",), "None", where)
    content_type = reader.text("ContentType") if reader.has("ContentType") else None
    return Channel(name, read_source(source.section("S3DataSource"), where), content_type)


def _checkpoints(reader: RequestReader) -> Checkpoints | None:
    if not reader.has("CheckpointConfig"):
        return None
    section = reader.section("CheckpointConfig")
    return Checkpoints(section.uri("S3Uri"), section.text_or("LocalPath", "/opt/ml/checkpoints"))


_ALGORITHM = "compilegate_xgboost.py"
"""What the program of a built-in algorithm is called in the job's code folder."""


class TrainingJob:
    """Implements `compilegate.local.jobs.job.Job`."""

    def __init__(
        self, name: str, request: TrainingRequest, sandboxes: Sandboxes, store: ObjectStore
    ) -> None:
        local_paths = [] if request.checkpoints is None else [request.checkpoints.local_path]
        self.name = name
        self.sandbox = sandboxes.make(name, local_paths)
        self.metrics: Sequence[MetricDefinition] = request.metrics
        self.max_seconds = request.max_seconds
        self.gpus = request.gpus
        self.processes = request.processes
        self._request = request
        self._store = store
        self._restored: Sequence[Path] = ()
        """The checkpoints that were there when the job started."""

    @property
    def arn(self) -> str:
        return f"{ACCOUNT}:training-job/{self.name}"

    def stage(self, environment: Environment) -> Sequence[Path]:
        sandbox, request = self.sandbox, self._request
        for name in ("model", "output/data", "output/intermediate", "code", "input/data"):
            sandbox.make(ML / name)
        files: list[Path] = []
        for channel in request.channels:
            folder = sandbox.make(ML / "input/data" / channel.name)
            files += channel.source.place(self._store, folder)
        config = ML / "input/config"
        checkpoints = request.checkpoints
        if checkpoints is not None:
            folder = sandbox.make(checkpoints.local_path)
            told = {"LocalPath": sandbox.rewrite(checkpoints.local_path)}
            sandbox.write_json(config / "checkpointconfig.json", told)
            if self._store.exists(checkpoints.uri):
                self._restored = self._store.download(f"{checkpoints.uri.rstrip('/')}/", folder)
        if request.source_uri is not None and not request.entrypoint:
            self._unpack(request.source_uri)
        if request.algorithm is not None:
            shutil.copyfile(xgboost.__file__, sandbox.path(ML / "code") / _ALGORITHM)
        sandbox.write_json(config / "hyperparameters.json", self._hyperparameters())
        sandbox.write_json(config / "inputdataconfig.json", self._input_data_config())
        sandbox.write_json(config / "resourceconfig.json", resource_config(request.instances.kind))
        return files

    def _unpack(self, uri: str) -> None:
        code = self.sandbox.path(ML / "code")
        archive = self.sandbox.path(uri) if in_container(uri) else self._store.path(uri)
        if not archive.is_file():
            remedy = "let a channel bring it" if in_container(uri) else f"put it at {archive}"
            raise StepError(f"source archive {uri} is absent: {remedy}")
        unpack_source(archive, code)
        program = str(self._request.program)
        is_package = (code / "setup.py").is_file()
        if not is_package and not (code / program).is_file():
            raise StepError(f"sagemaker_program {program!r} is not in the source archive {uri}")

    def _hyperparameters(self) -> dict[str, str]:
        return {k: self.sandbox.rewrite(v) for k, v in self._request.hyperparameters.items()}

    def _input_data_config(self) -> dict[str, dict[str, str]]:
        return {channel.name: channel.config() for channel in self._request.channels}

    def argv(self, environment: Environment, cores: int, gpus: int) -> list[str]:
        request, rewrite = self._request, self.sandbox.rewrite
        if request.entrypoint:
            program, *rest = request.entrypoint
            command = [interpreter_for(program, environment), *rest, *request.arguments]
            return [rewrite(part) for part in command]
        python, code = str(environment.python), self.sandbox.path(ML / "code")
        if request.algorithm is not None:
            pickled = ["--pickle"] if xgboost.pickles(request.image) else []
            return [python, rewrite(str(ML / "code" / _ALGORITHM)), *pickled]
        # The toolkit has as many processes on a host as it has GPUs, or else cores.
        started = gpus or max(cores, self.processes)
        return script_command(python, str(request.program), self._hyperparameters(), code, started)

    def variables(self, cores: int, gpus: int) -> dict[str, str]:
        own = {k: self.sandbox.rewrite(v) for k, v in self._request.environment.items()}
        job = {"TRAINING_JOB_NAME": self.name, "TRAINING_JOB_ARN": self.arn}
        if self._request.entrypoint:
            # As on SageMaker: with an entry point of its own, the toolkit never runs.
            return {**job, **own}
        container = TrainingContainer(
            job_name=self.name,
            base=self.sandbox.inside(self.sandbox.path(ML)),
            hyperparameters=self._hyperparameters(),
            input_data_config=self._input_data_config(),
            resource_config=resource_config(self._request.instances.kind),
            cpus=cores,
            gpus=gpus,
        )
        path = {"PYTHONPATH": self.working_directory()}
        return {**toolkit_environment(container), **path, **job, **own}

    def working_directory(self) -> str:
        return self.sandbox.inside(self.sandbox.path(ML / "code"))

    def source_folder(self) -> Path | None:
        request = self._request
        toolkit_runs = request.source_uri is not None and not request.entrypoint
        return self.sandbox.path(ML / "code") if toolkit_runs else None

    def collect(self, end: JobEnd) -> None:
        """Store output.tar.gz always, the checkpoints too; model.tar.gz unless the job failed."""
        self._store_archive("output/data", OUTPUT_ARCHIVE)
        if end.succeeded or end.reason == "timeout":
            self._store_archive("model", MODEL_ARCHIVE)
        if self._request.checkpoints is not None:
            self._store_checkpoints(self._request.checkpoints)

    def _store_checkpoints(self, checkpoints: Checkpoints) -> None:
        """As the service does: what the job deleted in its folder is deleted in the store too."""
        folder = self.sandbox.path(checkpoints.local_path)
        self._store.upload_folder(folder, checkpoints.uri)
        for path in self._restored:
            if not path.exists():
                self._store.remove(f"{checkpoints.uri.rstrip('/')}/{path.relative_to(folder)}")

    def _store_archive(self, folder: str, name: str) -> None:
        archive = self.sandbox.folder / name
        pack_folder(self.sandbox.path(ML / folder), archive)
        self._store.upload(archive, self._result_uri(name))
        archive.unlink()

    def _result_uri(self, name: str) -> str:
        return f"{self._request.output_uri.rstrip('/')}/{self.name}/output/{name}"

    def message(self) -> str | None:
        return read_message(self.sandbox.path(ML / "output/failure"))

    def recorded_failure(self) -> str | None:
        return self.message()  # the service reads that file of a failed job alone

    def output_uris(self) -> Sequence[str]:
        return [self._result_uri(MODEL_ARCHIVE), self._result_uri(OUTPUT_ARCHIVE)]

    def describe(self, outcome: JobOutcome) -> dict[str, Any]:
        seconds = int(outcome.ended - outcome.started)
        secondary = "MaxRuntimeExceeded" if outcome.timed_out else outcome.status
        response = {
            **self._request.raw,
            "TrainingJobName": self.name,
            "TrainingJobArn": self.arn,
            "TrainingJobStatus": outcome.status,
            "SecondaryStatus": secondary,
            "CreationTime": iso_time(outcome.started),
            "TrainingStartTime": iso_time(outcome.started),
            "TrainingEndTime": iso_time(outcome.ended),
            "LastModifiedTime": iso_time(outcome.ended),
            "TrainingTimeInSeconds": seconds,
            "BillableTimeInSeconds": seconds,
            "FinalMetricDataList": list(outcome.metrics),
        }
        if outcome.status != "Failed":
            response["ModelArtifacts"] = {"S3ModelArtifacts": self._result_uri(MODEL_ARCHIVE)}
        if outcome.failure is not None:
            response["FailureReason"] = outcome.failure
        return response
