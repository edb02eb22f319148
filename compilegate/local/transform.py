"""Model and Transform steps: a model over the files below a prefix, NAME answered by NAME.out.

A transform job is a processing job whose program is `transform_program.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.document.evaluation import Unresolved
from compilegate.document.reading import refuse_constant
from compilegate.job.names import MODEL_VARIABLE
from compilegate.local import transform_program, xgboost
from compilegate.local.errors import ExecutionError, StepError, StepRequestError
from compilegate.local.home.images import Environment
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.job import Instances, JobOutcome, Source
from compilegate.local.jobs.processing import (
    ProcessingInput,
    ProcessingJob,
    ProcessingOutput,
    ProcessingRequest,
)
from compilegate.local.jobs.sandbox import Sandboxes, unpack_source
from compilegate.local.requests import ACCOUNT, RequestReader, iso_time
from compilegate.serving import TOOLKIT

_MODEL, _CONFIG = "/opt/ml/model", "/opt/ml/input/config"
_PROGRAMS = {
    "transform.py": Path(transform_program.__file__),
    f"{transform_program.XGBOOST}.py": Path(xgboost.__file__),
    f"{transform_program.TOOLKIT}.py": TOOLKIT,
}


@dataclass(frozen=True)
class ModelContainer:
    """An image with a model's files and environment, of a CreateModel request."""

    image: str
    data_uri: str | None
    environment: Mapping[str, str]


def read_containers(raw: Mapping[str, Any]) -> tuple[ModelContainer, ...]:
    """The containers of a resolved CreateModel request, first to last.

    Raises StepRequestError for what is missing, mistyped or unsupported.
    """
    reader = RequestReader(raw)
    if reader.has("PrimaryContainer"):
        return (_container(reader.section("PrimaryContainer")),)
    found = tuple(_container(each) for each in reader.sections("Containers"))
    if not found:
        raise StepRequestError("a model needs PrimaryContainer or Containers")
    return found


def _container(reader: RequestReader) -> ModelContainer:
    if reader.has("ModelPackageName") and not reader.has("Image"):
        raise StepRequestError(
            "a container with ModelPackageName alone is not supported here: name its Image and "
            "ModelDataUrl"
        )
    uri = reader.uri("ModelDataUrl") if reader.has("ModelDataUrl") else None
    if uri is None and reader.has("ModelDataSource"):
        uri = reader.section("ModelDataSource").section("S3DataSource").uri("S3Uri")
    return ModelContainer(reader.text("Image"), uri, reader.variables("Environment"))


def read_model(name: str, path: Path) -> Mapping[str, Any]:
    """A model that is made elsewhere: a CreateModel request, or the answer of DescribeModel.

    Raises ExecutionError.
    """
    try:
        found = json.loads(path.read_bytes(), parse_constant=refuse_constant)
        if not isinstance(found, dict):
            raise ExecutionError(
                f"--model {name}: {path} holds {found!r:.60}, expected an object such as "
                '{"PrimaryContainer": {"Image": "...", "ModelDataUrl": "s3://..."}}'
            )
        read_containers(found)
    except (OSError, ValueError, RecursionError) as error:
        raise ExecutionError(f"--model {name}: {path} cannot be read as JSON: {error}") from error
    except StepError as error:
        raise ExecutionError(f"--model {name}: {path}: {error}") from error
    return {**found, "ModelName": name}


@dataclass(frozen=True, kw_only=True)
class TransformRequest(ProcessingRequest):
    """A resolved CreateTransformJob request."""

    unpacked: Mapping[str, str]
    """By URI, the archives and folders that are unpacked, and where to: the model, its code."""
    code: str
    """The folder of the inference code."""
    algorithm: str | None
    """The built-in algorithm that answers, where the model brings no program."""

    gpus = 0
    """A prediction here is computed on the cores."""

    @property
    def input_uris(self) -> tuple[str, ...]:
        """Every object or prefix that must exist when the job starts."""
        return (*super().input_uris, *self.unpacked)

    def job(self, name: str, sandboxes: Sandboxes, store: ObjectStore) -> TransformJob:
        """The job that is asked for, in a sandbox of its own."""
        return TransformJob(name, self, sandboxes, store)


def read_transform_request(raw: Mapping[str, Any]) -> TransformRequest:
    """Read a resolved request; `Model` in it is the description of the model that it names.

    Raises StepRequestError for what is missing, mistyped or unsupported.
    """
    reader = RequestReader(raw)
    source, target = reader.section("TransformInput"), reader.section("TransformOutput")
    s3 = source.section("DataSource").section("S3DataSource")
    _one_of(s3, "S3DataType", "S3Prefix")
    containers = read_containers(raw["Model"])
    if len(containers) > 1:
        raise StepRequestError(
            f"its model has {len(containers)} containers, allowed here: 1; transform with each "
            "of them in a step of its own"
        )
    image, uri = containers[0].image, containers[0].data_uri
    environment = {**containers[0].environment, **reader.variables("Environment")}
    program = environment.get("SAGEMAKER_PROGRAM", "").strip('"')
    code = environment.get("SAGEMAKER_SUBMIT_DIRECTORY", f"{_MODEL}/code").strip('"')
    unpacked = {} if uri is None else {uri: _MODEL}
    if code.startswith("s3://"):
        unpacked[code], code = "/opt/ml/code", "/opt/ml/code"
    plan: dict[str, Any] = {
        **_processing(reader.section_or_empty("DataProcessing")),
        "program": program,
        "code": code.removeprefix("file://"),
        "defaults": next((each for each in ("huggingface", "pytorch") if each in image), "arrays"),
        "content_type": source.text_or("ContentType", ""),
        "accept": target.text_or("Accept", ""),
        "split_lines": _one_of(source, "SplitType", "None", "Line") == "Line",
        "gzipped": _one_of(source, "CompressionType", "None", "Gzip") == "Gzip",
        "assemble_lines": _one_of(target, "AssembleWith", "None", "Line") == "Line",
        "one_by_one": _one_of(reader, "BatchStrategy", "MultiRecord", "SingleRecord")[0] == "S",
        "model": _MODEL,
        "input": "/opt/ml/input/data",
        "output": "/opt/ml/output/data",
    }
    request = TransformRequest(
        image=image,
        entrypoint=("python", f"{_CONFIG}/transform.py", json.dumps(plan)),
        arguments=(),
        environment={"SAGEMAKER_BATCH": "true", MODEL_VARIABLE: _MODEL, **environment},
        inputs=(
            ProcessingInput(
                Source(s3.uri("S3Uri"), is_manifest=False, sharded=False), plan["input"]
            ),
        ),
        outputs=(ProcessingOutput(target.uri("S3OutputPath"), plan["output"]),),
        max_seconds=432_000,  # the service's own limit, five days
        instances=Instances(),
        raw={name: value for name, value in raw.items() if name != "Model"},
        unpacked=unpacked,
        code=plan["code"],
        algorithm=None if program else xgboost.algorithm_of(image),
    )
    filters = {plan["input_filter"], plan["output_filter"]}
    if not plan["split_lines"] and (plan["join"] or filters != {"$"}):
        raise StepRequestError("DataProcessing needs TransformInput.SplitType Line")
    _check_algorithm(request.algorithm, plan["content_type"])
    return request


def _one_of(reader: RequestReader, key: str, *allowed: str) -> str:
    """A member with few values, the first by default."""
    value = reader.text_or(key, allowed[0])
    if not isinstance(value, Unresolved) and value not in allowed:
        raise StepRequestError(f"{key} is {value!r}, allowed here: {', '.join(allowed)}")
    return value


def _processing(reader: RequestReader) -> dict[str, Any]:
    found = {}
    for name, key in (("input_filter", "InputFilter"), ("output_filter", "OutputFilter")):
        found[name] = reader.text_or(key, "$")
        try:
            transform_program.parse_filter(
                "$" if isinstance(found[name], Unresolved) else found[name]
            )
        except transform_program.FilterError as error:
            raise StepRequestError(f"DataProcessing.{key}: {error}") from None
    return {**found, "join": _one_of(reader, "JoinSource", "None", "Input") == "Input"}


def _check_algorithm(algorithm: str | None, content_type: str) -> None:
    if algorithm is not None and algorithm != xgboost.XGBOOST:
        raise StepRequestError(xgboost.REFUSAL.format(algorithm))
    known = content_type and not isinstance(content_type, Unresolved)
    if algorithm is not None and known and not xgboost.is_csv(content_type):
        raise StepRequestError(f"TransformInput: {xgboost.NO_CSV.format(content_type)}")


class TransformJob(ProcessingJob):
    """Implements `compilegate.local.jobs.job.Job`."""

    def __init__(
        self, name: str, request: TransformRequest, sandboxes: Sandboxes, store: ObjectStore
    ) -> None:
        super().__init__(name, request, sandboxes, store)
        self._unpacked, self._code = request.unpacked, request.code

    @property
    def arn(self) -> str:
        return f"{ACCOUNT}:transform-job/{self.name}"

    def stage(self, environment: Environment) -> Sequence[Path]:
        files = super().stage(environment)
        for uri, folder in {"": _MODEL, **self._unpacked}.items():
            target = self.sandbox.make(folder)
            if uri and self._store.path(uri).is_file():
                unpack_source(self._store.path(uri), target)
            elif uri:
                self._store.download(uri, target)
        for name, path in _PROGRAMS.items():
            shutil.copyfile(path, self.sandbox.make(_CONFIG) / name)
        return files

    def source_folder(self) -> Path | None:
        """Where a requirements.txt may lie that is to be installed."""
        folder = self.sandbox.path(self._code)
        return folder if folder.is_dir() else None

    def describe(self, outcome: JobOutcome) -> dict[str, Any]:
        failure = {} if outcome.failure is None else {"FailureReason": outcome.failure}
        return {
            **self._request.raw,
            "TransformJobName": self.name,
            "TransformJobArn": self.arn,
            "TransformJobStatus": outcome.status,
            "CreationTime": iso_time(outcome.started),
            "TransformStartTime": iso_time(outcome.started),
            "TransformEndTime": iso_time(outcome.ended),
            **failure,
        }
