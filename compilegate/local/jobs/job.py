"""What training, processing and transform jobs have in common (their request, their sandbox, how
they are described), and processing jobs, which add little to it.

A job on N instances is N times the processes on one host, this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from compilegate.document.expressions import Unresolved
from compilegate.local.errors import StepRequestError
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.launcher import JobEnd
from compilegate.local.jobs.leases import gpus_wanted
from compilegate.local.jobs.sandbox import HOST, ML, Sandbox, Sandboxes, container_path
from compilegate.local.requests import ACCOUNT, INSTEAD, RequestReader, iso_time

PYTHON_NAMES = ("python", "python3")
_SHARDED, _REPLICATED = "ShardedByS3Key", "FullyReplicated"
_MOST_INSTANCES = 16
_GROUP = "homogeneousCluster"


@dataclass(frozen=True)
class Input:
    """The objects at and below a URI, in the folder `local_path` of the container."""

    uri: str
    local_path: str
    distribution: str = _REPLICATED
    """S3DataDistributionType; the one host here gets all objects."""
    name: str = ""
    content_type: str | None = None


@dataclass(frozen=True)
class Output:
    """The folder `local_path` of the container, which is stored at `uri`."""

    uri: str
    local_path: str


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended, for its Describe* response."""

    status: str
    started: float
    ended: float
    failure: str | None
    metrics: Sequence[Mapping[str, Any]]
    timed_out: bool


@dataclass(kw_only=True)
class Job:
    """One job, from its resolved request to its Describe* response."""

    kind: ClassVar[str]
    """The kind in the API's names, as in DescribeTrainingJob."""
    start_folder: ClassVar[str]
    """The program's working directory below /opt/ml, as the next two."""
    config_folder: ClassVar[str]
    message_file: ClassVar[str]
    """File in which the job may explain its end."""

    image: str
    entrypoint: tuple[str, ...]
    """ContainerEntrypoint; empty where the image's own toolkit starts the program."""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    instance_type: str = "local"
    processes: int = 1
    """How many compute side by side: each has work for a core."""
    max_seconds: int
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions of metrics in the job's output, by name."""
    algorithm: str | None = None
    """The built-in algorithm, where the request names no program of its own."""
    raw: Mapping[str, Any]
    """The whole request, which the Describe* response echoes."""

    name: str = field(init=False)
    sandbox: Sandbox = field(init=False)
    store: ObjectStore = field(init=False)

    def settle(self, name: str, sandboxes: Sandboxes, store: ObjectStore) -> None:
        """Give it a name and an empty sandbox; what precedes that only reads the request."""
        folders = (*self.inputs, *self.outputs)
        self.name, self.store = name, store
        self.sandbox = sandboxes.make(name, [each.local_path for each in folders])

    @property
    def gpus(self) -> int:
        """How many it computes with, where this machine has any: one for each process."""
        return gpus_wanted(self.instance_type, self.processes)

    @property
    def input_uris(self) -> tuple[str, ...]:
        """Every object or prefix that must exist when the job starts."""
        return tuple(each.uri for each in self.inputs)

    @property
    def output_prefixes(self) -> tuple[str, ...]:
        return tuple(each.uri for each in self.outputs)

    def output_uris(self) -> Sequence[str]:
        return self.output_prefixes

    @property
    def identity(self) -> dict[str, str]:
        """The members of a Describe* response that name the job."""
        arn = f"{ACCOUNT}:{self.kind.lower()}-job/{self.name}"
        return {f"{self.kind}JobName": self.name, f"{self.kind}JobArn": arn}

    def stage(self) -> list[Path]:
        """Fill the sandbox; return the input files. Raises StepError."""
        self.sandbox.make(ML / self.start_folder)
        self.sandbox.make((ML / self.message_file).parent)
        for output in self.outputs:
            self.sandbox.make(output.local_path)
        self.write_config("resourceconfig", self.resource_config())
        files = []
        for each in self.inputs:
            files += self.store.download(each.uri, self.sandbox.make(each.local_path))
        return files

    def write_config(self, name: str, content: Mapping[str, Any]) -> None:
        """Write one of the files that tell the container about the job."""
        self.sandbox.write_json(ML / self.config_folder / f"{name}.json", content)

    def resource_config(self) -> dict[str, Any]:
        """resourceconfig.json of a job, which has one host here."""
        kind = self.instance_type
        group = {"instance_group_name": _GROUP, "instance_type": kind, "hosts": [HOST]}
        return {
            "current_host": HOST,
            "current_instance_type": kind,
            "current_group_name": _GROUP,
            "hosts": [HOST],
            "instance_groups": [group],
            "network_interface_name": "lo",
        }

    def argv(self, python: str, cores: int, gpus: int) -> list[str]:
        del cores, gpus
        program, *rest = self.entrypoint
        if program.rpartition("/")[2] in PYTHON_NAMES:  # the image's, wherever the image has it
            program = python
        return [self.sandbox.rewrite(part) for part in (program, *rest, *self.arguments)]

    def variables(self, cores: int, gpus: int) -> dict[str, str]:
        del cores, gpus
        name, arn = self.identity.values()
        prefix = f"{self.kind.upper()}_JOB"
        return {f"{prefix}_NAME": name, f"{prefix}_ARN": arn, **self.rewritten(self.environment)}

    def rewritten(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Values of the request, with their container paths as the job finds them."""
        return {name: self.sandbox.rewrite(value) for name, value in texts.items()}

    def working_directory(self) -> str:
        return self.sandbox.inside(self.sandbox.path(ML / self.start_folder))

    def source_folder(self) -> Path | None:
        """The source's folder, if what a requirements.txt or a setup.py there names is to be
        installed before it starts. A processor installs such things in its command."""
        return None

    def collect(self, end: JobEnd) -> None:
        """Store the results; what a failed job left may be half done. Raises StepError."""
        if end.succeeded:
            self.store_outputs()

    def store_outputs(self) -> None:
        for output in self.outputs:
            self.store.upload_folder(self.sandbox.path(output.local_path), output.uri)

    def message(self) -> str | None:
        """What the job wrote for people about its end, if it did; at most 1024 characters."""
        try:
            text = self.sandbox.path(ML / self.message_file).read_text("utf-8", "replace")
        except OSError:
            return None
        return text.strip()[:1024] or None

    def recorded_failure(self) -> str | None:
        """Why a job that ended well did not do what it was for, where it says so."""
        return None

    def describe(self, outcome: JobOutcome) -> dict[str, Any]:
        started, ended = iso_time(outcome.started), iso_time(outcome.ended)
        return {
            **self.raw,
            **self.identity,
            f"{self.kind}JobStatus": outcome.status,
            "CreationTime": started,
            f"{self.kind}StartTime": started,
            f"{self.kind}EndTime": ended,
            "LastModifiedTime": ended,
            **({} if outcome.failure is None else {"FailureReason": outcome.failure}),
        }


class ProcessingJob(Job):
    """A processing job: CreateProcessingJob's container contract."""

    kind = "Processing"
    start_folder = "processing"
    config_folder = "config"
    message_file = "output/message"

    def stage(self) -> list[Path]:
        self.write_config("processingjobconfig", {**self.raw, **self.identity})
        return super().stage()

    def describe(self, outcome: JobOutcome) -> dict[str, Any]:
        message = self.message()
        exit_message = {} if message is None else {"ExitMessage": message}
        return {**super().describe(outcome), **exit_message}


def read_processing_request(raw: Mapping[str, Any]) -> ProcessingJob:
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
    return read_input(s3, _local_path(s3), name)


def _output(reader: RequestReader) -> Output:
    name = reader.text("OutputName")
    if not reader.has("S3Output"):
        raise StepRequestError(f"output {name} has no S3Output; a feature store needs AWS")
    s3 = reader.section("S3Output")
    return Output(s3.uri("S3Uri"), _local_path(s3))


def read_instances(resources: RequestReader) -> tuple[str, int]:
    """Instance type and count of a ResourceConfig or ClusterConfig. Raises StepRequestError."""
    groups = resources.sections("InstanceGroups")
    if len(groups) > 1:
        raise StepRequestError(
            f"InstanceGroups names {len(groups)} groups of instances, and a job has "
            f"one host here; train with one group, or {INSTEAD}"
        )
    section = groups[0] if groups else resources
    count = section.integer_or("InstanceCount", 1)
    if not 1 <= count <= _MOST_INSTANCES:
        raise StepRequestError(
            f"InstanceCount is {count}, expected 1 to {_MOST_INSTANCES}: all their "
            "processes run on this machine"
        )
    return section.text_or("InstanceType", "local"), count


def read_input(
    s3: RequestReader, local_path: str, name: str = "", content_type: str | None = None
) -> Input:
    s3.one_of("S3DataType", "S3Prefix")
    distribution = s3.one_of("S3DataDistributionType", _REPLICATED, _SHARDED)
    return Input(s3.uri("S3Uri"), local_path, distribution, name, content_type)


def _local_path(reader: RequestReader) -> str:
    path = reader.text("LocalPath")
    if not isinstance(path, Unresolved):
        container_path(path)
    return path
