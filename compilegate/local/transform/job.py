"""A transform job: a model over the files of a prefix, each answered by a file NAME.out.

A CreateTransformJob request, as far as a local run needs it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.document.evaluation import Unresolved
from compilegate.job.names import MODEL_VARIABLE
from compilegate.local.errors import StepError, StepRequestError
from compilegate.local.home.images import Environment
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.job import JobOutcome
from compilegate.local.jobs.launcher import JobEnd
from compilegate.local.jobs.printed import MetricDefinition
from compilegate.local.jobs.sandbox import ML, Sandboxes, unpack_source
from compilegate.local.requests import ACCOUNT, RequestReader, iso_time
from compilegate.local.transform.models import ModelContainer, read_containers
from compilegate.local.transform.records import FilterError, parse_filter
from compilegate.serving import TOOLKIT

_MEGABYTE = 1 << 20
_MOST_SECONDS = 432_000
"""The service's own limit of a transform job, five days."""


@dataclass(frozen=True)
class TransformRequest:
    """What a transform job is asked to be."""

    model_name: str
    container: ModelContainer | None
    """The model's, once it is known."""
    input_uri: str
    output_uri: str
    content_type: str
    accept: str
    split_lines: bool
    gzipped: bool
    assemble_lines: bool
    single_records: bool
    payload_bytes: int
    input_filter: str
    output_filter: str
    join: bool
    environment: Mapping[str, str]
    raw: Mapping[str, Any]
    """The whole resolved request, which DescribeTransformJob echoes."""

    max_seconds = _MOST_SECONDS
    gpus = 0
    """A prediction here is computed on the cores."""

    @property
    def image(self) -> str:
        """What the model's code runs in."""
        return Unresolved("of the model") if self.container is None else self.container.image

    @property
    def input_uris(self) -> tuple[str, ...]:
        """Every object or prefix that must exist when the job starts."""
        model = () if self.container is None else (self.container.data_uri,)
        return (self.input_uri, *(uri for uri in model if uri is not None))

    @property
    def output_prefixes(self) -> tuple[str, ...]:
        """Below which the job's results will lie."""
        return (self.output_uri,)

    def job(self, name: str, sandboxes: Sandboxes, store: ObjectStore) -> TransformJob:
        """The job that is asked for, in a sandbox of its own."""
        return TransformJob(name, self, sandboxes, store)


def read_transform_request(raw: Mapping[str, Any]) -> TransformRequest:
    """Read a resolved request; `Model` in it is the description of the model that it names.

    Raises StepRequestError for what is missing, mistyped or unsupported.
    """
    reader = RequestReader(raw)
    source = reader.section("TransformInput")
    target = reader.section("TransformOutput")
    processing = reader.section_or_empty("DataProcessing")
    s3 = source.section("DataSource").section("S3DataSource")
    _only(s3, "S3DataType", "S3Prefix", ("S3Prefix",))
    split = _only(source, "SplitType", "None", ("None", "Line"))
    compression = _only(source, "CompressionType", "None", ("None", "Gzip"))
    assemble = _only(target, "AssembleWith", "None", ("None", "Line"))
    strategy = _only(reader, "BatchStrategy", "MultiRecord", ("MultiRecord", "SingleRecord"))
    join = _only(processing, "JoinSource", "None", ("None", "Input"))
    if join == "Input" and split != "Line":
        raise StepRequestError("JoinSource Input needs TransformInput.SplitType Line")
    payload = reader.integer_or("MaxPayloadInMB", 6)
    return TransformRequest(
        model_name=reader.text("ModelName"),
        container=_container(raw),
        input_uri=s3.uri("S3Uri"),
        output_uri=target.uri("S3OutputPath"),
        content_type=source.text_or("ContentType", ""),
        accept=target.text_or("Accept", ""),
        split_lines=split == "Line",
        gzipped=compression == "Gzip",
        assemble_lines=assemble == "Line",
        single_records=strategy == "SingleRecord",
        payload_bytes=max(1, payload or 100) * _MEGABYTE,
        input_filter=_filter(processing, "InputFilter"),
        output_filter=_filter(processing, "OutputFilter"),
        join=join == "Input",
        environment=reader.variables("Environment"),
        raw={name: value for name, value in raw.items() if name != "Model"},
    )


def _container(raw: Mapping[str, Any]) -> ModelContainer | None:
    if raw.get("Model") is None:
        return None
    containers = read_containers(raw["Model"])
    if len(containers) > 1:
        raise StepRequestError(
            f"its model has {len(containers)} containers, allowed here: 1; transform with each "
            "of them in a step of its own"
        )
    return containers[0]


def _only(reader: RequestReader, key: str, default: str, allowed: tuple[str, ...]) -> str:
    value = reader.text_or(key, default)
    if not isinstance(value, Unresolved) and value not in allowed:
        raise StepRequestError(f"{key} is {value!r}, allowed here: {', '.join(allowed)}")
    return value


def _filter(reader: RequestReader, key: str) -> str:
    value = reader.text_or(key, "$")
    if not isinstance(value, Unresolved):
        try:
            parse_filter(value)
        except FilterError as error:
            raise StepRequestError(f"DataProcessing.{key}: {error}") from None
    return value


_PROGRAMS = (
    *(Path(__file__).with_name(name) for name in ("serving.py", "built_in.py", "records.py")),
    TOOLKIT,
)
_IN_MODEL = "/opt/ml/model/code"
_IN_ARCHIVE = "/opt/ml/code"
_PLAN = "/opt/ml/input/config/transform.json"


def _defaults_of(image: str) -> str:
    """Which image's functions stand in for those that the model's code leaves out."""
    repository = image.rpartition("/")[2].partition(":")[0]
    return next((name for name in ("huggingface", "pytorch") if name in repository), "arrays")


class TransformJob:
    """Implements `compilegate.local.jobs.job.Job`."""

    def __init__(
        self, name: str, request: TransformRequest, sandboxes: Sandboxes, store: ObjectStore
    ) -> None:
        self.name = name
        self.sandbox = sandboxes.make(name)
        self.metrics: Sequence[MetricDefinition] = ()
        self.max_seconds = request.max_seconds
        self.gpus = request.gpus
        self.processes = 1
        self._request = request
        self._store = store

    @property
    def arn(self) -> str:
        return f"{ACCOUNT}:transform-job/{self.name}"

    @property
    def _container(self) -> ModelContainer:
        if self._request.container is None:
            raise StepError(f"the model {self._request.model_name} is not known")
        return self._request.container

    def stage(self, environment: Environment) -> Sequence[Path]:
        del environment
        model = self.sandbox.make(ML / "model")
        container = self._container
        if container.data_uri is not None:
            self._place_model(container.data_uri, model)
        code = self._code(container)
        source = self.sandbox.make(ML / "input/data")
        files = self._store.download(self._request.input_uri, source)
        self.sandbox.make(ML / "output/data")
        self._write_plan(container, code, [str(path.relative_to(source)) for path in files])
        return files

    def _place_model(self, uri: str, folder: Path) -> None:
        path = self._store.path(uri)
        if path.is_file():
            unpack_source(path, folder)
        else:
            self._store.download(uri, folder)

    def _code(self, container: ModelContainer) -> str:
        """The container's folder of the inference code: in the model, or an archive of its own."""
        where = container.environment.get("SAGEMAKER_SUBMIT_DIRECTORY", _IN_MODEL).strip('"')
        if where.startswith("s3://"):
            folder = self.sandbox.make(_IN_ARCHIVE)
            archive = self._store.path(where)
            if not archive.is_file():
                raise StepError(f"the inference code {where} is absent: put it at {archive}")
            unpack_source(archive, folder)
            return _IN_ARCHIVE
        return where.removeprefix("file://")

    def _write_plan(self, container: ModelContainer, code: str, files: Sequence[str]) -> None:
        request = self._request
        program = {**container.environment, **request.environment}.get("SAGEMAKER_PROGRAM", "")
        plan = {
            "model": self.sandbox.rewrite("/opt/ml/model"),
            "code": self.sandbox.rewrite(code),
            "program": program.strip('"'),
            "defaults": _defaults_of(container.image),
            "input": self.sandbox.rewrite("/opt/ml/input/data"),
            "output": self.sandbox.rewrite("/opt/ml/output/data"),
            "files": files,
            "content_type": request.content_type,
            "accept": request.accept,
            "split_lines": request.split_lines,
            "gzipped": request.gzipped,
            "assemble_lines": request.assemble_lines,
            "single_records": request.single_records,
            "payload_bytes": request.payload_bytes,
            "input_filter": request.input_filter,
            "output_filter": request.output_filter,
            "join": request.join,
        }
        folder = self.sandbox.make(ML / "input/config")
        for program_file in _PROGRAMS:
            shutil.copyfile(program_file, folder / program_file.name)
        self.sandbox.path(_PLAN).write_text(json.dumps(plan), encoding="utf-8")

    def source_folder(self) -> Path | None:
        """Where a requirements.txt may lie that is to be installed."""
        where = self._container.environment.get("SAGEMAKER_SUBMIT_DIRECTORY", _IN_MODEL).strip('"')
        inside = _IN_ARCHIVE if where.startswith("s3://") else where.removeprefix("file://")
        folder = self.sandbox.path(inside)
        return folder if folder.is_dir() else None

    def argv(self, environment: Environment, cores: int, gpus: int) -> list[str]:
        del cores, gpus
        serving = self.sandbox.rewrite("/opt/ml/input/config/serving.py")
        return [str(environment.python), serving, self.sandbox.rewrite(_PLAN)]

    def variables(self, cores: int, gpus: int) -> dict[str, str]:
        said = {**self._container.environment, **self._request.environment}
        own = {name: self.sandbox.rewrite(value) for name, value in said.items()}
        return {
            "SAGEMAKER_BATCH": "true",
            MODEL_VARIABLE: self.sandbox.rewrite("/opt/ml/model"),
            "SM_NUM_CPUS": str(cores),
            "SM_NUM_GPUS": str(gpus),
            **own,
        }

    def working_directory(self) -> str:
        return self.sandbox.rewrite("/opt/ml/model")

    def collect(self, end: JobEnd) -> None:
        """Store the answers of a job that succeeded; those of a failed one may be half done."""
        if end.succeeded:
            self._store.upload_folder(
                self.sandbox.path(ML / "output/data"), self._request.output_uri
            )

    def message(self) -> str | None:
        return None

    def recorded_failure(self) -> str | None:
        return None

    def output_uris(self) -> Sequence[str]:
        return [self._request.output_uri]

    def describe(self, outcome: JobOutcome) -> dict[str, Any]:
        response: dict[str, Any] = {
            **self._request.raw,
            "TransformJobName": self.name,
            "TransformJobArn": self.arn,
            "TransformJobStatus": outcome.status,
            "CreationTime": iso_time(outcome.started),
            "TransformStartTime": iso_time(outcome.started),
            "TransformEndTime": iso_time(outcome.ended),
        }
        if outcome.failure is not None:
            response["FailureReason"] = outcome.failure
        return response
