"""A training job: CreateTrainingJob's container contract on a sandbox folder.

A CreateTrainingJob request, as far as a local run needs it.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compilegate.document.evaluation import Unresolved
from compilegate.job.names import (
    DISTRIBUTION,
    MODEL_ARCHIVE,
    OUTPUT_ARCHIVE,
    PROCESSES,
    PROCESSES_VARIABLE,
    TORCHRUN,
)
from compilegate.local import xgboost
from compilegate.local.errors import StepError, StepRequestError
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
from compilegate.local.jobs.cluster.launchers import Launch, by_torchrun, free_port
from compilegate.local.jobs.inputs.channels import (
    FILE,
    Channel,
    objects_of,
    read_channel,
    share_of,
    unknown_groups,
)
from compilegate.local.jobs.inputs.manifest import augmented_records
from compilegate.local.jobs.inputs.pipes import PipedChannel, fed
from compilegate.local.jobs.job import Job, JobOutcome, interpreter_for, read_message
from compilegate.local.jobs.launcher import JobEnd
from compilegate.local.jobs.leases.gpus import gpus_wanted
from compilegate.local.jobs.printed.metrics import MetricDefinition
from compilegate.local.jobs.sandbox import ML, Sandboxes, pack_folder, unpack_source
from compilegate.local.jobs.toolkit import TrainingContainer, command_line, toolkit_environment
from compilegate.local.requests import ACCOUNT, RequestReader, iso_time


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
    hosts: tuple[Host, ...]
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
        """How many its launcher starts, on all of its instances together."""
        return self._processes * len(self.hosts)

    @property
    def gpus(self) -> int:
        """How many it computes with, where this machine has any: one for each process."""
        return sum(gpus_wanted(host.instance_type, self._processes) for host in self.hosts)

    @property
    def _processes(self) -> int:
        told = self.environment.get(PROCESSES_VARIABLE)
        if self._text_hyperparameter(DISTRIBUTION) == TORCHRUN:  # the built-in program's own way
            told = self._text_hyperparameter(PROCESSES)
        is_number = told is not None and re.fullmatch(r"[1-9]\d{0,3}", told) is not None
        return int(told or 1) if is_number else 1

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

    @property
    def output_prefixes(self) -> tuple[str, ...]:
        """Below which the job's results will lie."""
        return (self.output_uri,)

    def job(self, name: str, sandboxes: Sandboxes, store: ObjectStore) -> TrainingJob:
        """The job that is asked for, in a sandbox of its own."""
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
    mode = algorithm.text_or("TrainingInputMode", FILE)
    request = TrainingRequest(
        image=algorithm.text("TrainingImage"),
        entrypoint=tuple(algorithm.texts("ContainerEntrypoint")),
        arguments=tuple(algorithm.texts("ContainerArguments")),
        metrics=tuple(_metric(item) for item in algorithm.sections("MetricDefinitions")),
        hyperparameters=reader.text_map("HyperParameters"),
        environment=reader.variables("Environment"),
        channels=tuple(read_channel(item, mode) for item in reader.sections("InputDataConfig")),
        output_uri=reader.section("OutputDataConfig").uri("S3OutputPath"),
        checkpoints=_checkpoints(reader),
        hosts=read_hosts(reader.section("ResourceConfig")),
        max_seconds=reader.max_seconds(),
        raw=raw,
    )
    fault = unknown_groups(request.channels, request.hosts)
    if fault is not None:
        raise StepRequestError(fault)
    if not request.entrypoint and not (request.program and request.source_uri):
        built_in = None if request.program is not None else _algorithm(request)
        if built_in is not None:
            return _trained_by(request, built_in)
        raise StepRequestError(
            "HyperParameters need sagemaker_program and sagemaker_submit_directory, "
            "or AlgorithmSpecification a ContainerEntrypoint: nothing says what to run, for an "
            "image has no entry point of its own here; let a command do the step (--command), or "
            "leave it out (--skip)"
        )
    if request.program is not None and not _is_plain_path(request.program):
        raise StepRequestError(
            f"sagemaker_program is {request.program!r}, expected a path in the source archive"
        )
    return _with_metrics(request) if _algorithm(request) == xgboost.XGBOOST else request


def _algorithm(request: TrainingRequest) -> str | None:
    return None if isinstance(request.image, Unresolved) else xgboost.algorithm_of(request.image)


def _trained_by(request: TrainingRequest, algorithm: str) -> TrainingRequest:
    if algorithm != xgboost.XGBOOST:
        raise StepRequestError(xgboost.REFUSAL.format(algorithm))
    divided = [channel.name for channel in request.channels if channel.sharded]
    if divided and len(request.hosts) > 1:
        raise StepRequestError(
            f"the channel {divided[0]} is divided among {len(request.hosts)} instances, but "
            f"{algorithm} trains on one here: set InstanceCount to 1, or "
            "S3DataDistributionType to FullyReplicated"
        )
    # What AWS's image reads from a pipe, the program here reads from files.
    filed = tuple(replace(channel, piped=False) for channel in request.channels)
    return replace(_with_metrics(request), algorithm=algorithm, channels=filed)


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
    name, expression = reader.text("Name"), reader.text("Regex")
    try:
        return MetricDefinition(name, re.compile(expression))
    except re.error as error:
        raise StepRequestError(f"the Regex of metric {name} is malformed: {error}") from error


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
        self,
        name: str,
        request: TrainingRequest,
        sandboxes: Sandboxes,
        store: ObjectStore,
        *,
        leader: TrainingJob | None = None,
        rank: int = 0,
    ) -> None:
        local_paths = [] if request.checkpoints is None else [request.checkpoints.local_path]
        self.name = name
        self.rank = rank
        self._hosts = reachable(request.hosts, own_root=sandboxes.own_root)
        self.host = self._hosts[rank].name
        self.sandbox = sandboxes.make(name, local_paths, members(self._hosts), rank)
        self.others: Sequence[Job] = [
            TrainingJob(name, request, sandboxes, store, leader=self, rank=other)
            for other in (range(1, len(self._hosts)) if leader is None else ())
        ]
        self._leader = leader or self
        self._port: int | None = None
        self._piped: list[PipedChannel] = []
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
        for name in ("model", "output/data", "output/intermediate", "code", "input/data"):
            self.sandbox.make(ML / name)
        files: list[Path] = []
        self._piped = []
        for channel, share in self._shares():
            piped_into = self.sandbox.path(ML / "input/data")
            if channel.attributes:
                which, of = share
                records = augmented_records(self._store, channel.uri, channel.attributes)
                self._piped.append(PipedChannel(channel, records[which::of], piped_into))
                continue
            found = objects_of(self._store, channel.uri, share, manifest=channel.is_manifest)
            if channel.piped:
                self._piped.append(PipedChannel(channel, [[file] for file, _ in found], piped_into))
            else:
                folder = self.sandbox.make(ML / "input/data" / channel.name)
                files += self._store.place(found, folder)
        checkpoints = self._request.checkpoints
        if checkpoints is not None:
            folder = self.sandbox.make(checkpoints.local_path)
            self._write_config(
                "checkpointconfig", {"LocalPath": self.sandbox.rewrite(checkpoints.local_path)}
            )
            if self._store.exists(checkpoints.uri):
                self._restored = self._store.download(f"{checkpoints.uri.rstrip('/')}/", folder)
        if self._request.source_uri is not None and not self._request.entrypoint:
            self._unpack(self._request.source_uri)
        if self._request.algorithm is not None:
            shutil.copyfile(xgboost.__file__, self.sandbox.path(ML / "code") / _ALGORITHM)
        self._write_config("hyperparameters", self._hyperparameters())
        self._write_config("inputdataconfig", self._input_data_config())
        self._write_config("resourceconfig", self._resource_config())
        return files

    def _shares(self) -> Iterator[tuple[Channel, tuple[int, int]]]:
        """The channels that this host gets, and which part of each."""
        for channel in self._request.channels:
            share = share_of(self._hosts, self._hosts[self.rank], channel)
            if share is not None:
                yield channel, share

    def _launch(self, cores: int, gpus: int) -> Launch:
        if self._leader._port is None:
            self._leader._port = free_port()
        return Launch(members(self._hosts), self.rank, self._leader._port, gpus or cores)

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

    def _write_config(self, name: str, content: Mapping[str, Any]) -> None:
        path = self.sandbox.make(ML / "input/config") / f"{name}.json"
        path.write_text(json.dumps(content), encoding="utf-8")

    def _hyperparameters(self) -> dict[str, str]:
        return {k: self.sandbox.rewrite(v) for k, v in self._request.hyperparameters.items()}

    def _input_data_config(self) -> dict[str, dict[str, str]]:
        return {channel.name: channel.config() for channel, _ in self._shares()}

    def _resource_config(self) -> dict[str, Any]:
        return resource_config(self._hosts, self._hosts[self.rank])

    def feeding(self) -> AbstractContextManager[None]:
        return fed(self._piped)

    def argv(self, environment: Environment, cores: int, gpus: int) -> list[str]:
        request, rewrite = self._request, self.sandbox.rewrite
        if request.entrypoint:
            program, *rest = request.entrypoint
            command = [interpreter_for(program, environment), *rest, *request.arguments]
            return [rewrite(part) for part in command]
        if request.algorithm is not None:
            code = rewrite(str(ML / "code" / _ALGORITHM))
            pickled = ["--pickle"] if xgboost.pickles(request.image) else []
            return [str(environment.python), code, *pickled]
        arguments = command_line(self._hyperparameters())
        program = str(request.program)
        if by_torchrun(request.hyperparameters):
            launch = self._launch(cores, gpus)
            return launch.torchrun(str(environment.python), [program, *arguments])
        if (self.sandbox.path(ML / "code") / "setup.py").is_file():
            module = program.removesuffix(".py").replace("/", ".")
            return [str(environment.python), "-m", module, *arguments]
        if program.endswith(".py"):
            return [str(environment.python), program, *arguments]
        (self.sandbox.path(ML / "code") / program).chmod(0o777)
        # A file that begins with no `#!` is a shell's, as the toolkit has it.
        return ["/bin/sh", "-c", f"./{program} {shlex.join(arguments)}"]

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
            resource_config=self._resource_config(),
            cpus=cores,
            gpus=gpus,
        )
        path = {"PYTHONPATH": self.working_directory()}
        meet = self._launch(cores, gpus).variables if len(self._hosts) > 1 else {}
        return {**toolkit_environment(container), **path, **meet, **job, **own}

    def working_directory(self) -> str:
        return self.sandbox.inside(self.sandbox.path(ML / "code"))

    def source_folder(self) -> Path | None:
        request = self._request
        toolkit_runs = request.source_uri is not None and not request.entrypoint
        return self.sandbox.path(ML / "code") if toolkit_runs else None

    def collect(self, end: JobEnd) -> Iterable[str]:
        """Store output.tar.gz always, the checkpoints too; model.tar.gz unless the job failed."""
        checkpoints = self._request.checkpoints
        kept = [] if checkpoints is None else [checkpoints.local_path]
        said: list[str] = []
        for where in (str(ML / "output/data"), str(ML / "model"), *kept):
            others = [(job.host, job.sandbox.path(where)) for job in self.others]
            said += gather(self.sandbox.path(where), others)
        self._store_archive("output/data", OUTPUT_ARCHIVE)
        if end.succeeded or end.reason == "timeout":
            self._store_archive("model", MODEL_ARCHIVE)
        if checkpoints is not None:
            self._store_checkpoints(checkpoints)
        return said

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
