"""Model and Transform steps: a model over the files below a prefix, NAME answered by NAME.out.

The program of a transform job is `transform_program.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.document.expressions import Unresolved
from compilegate.document.reading import refuse_constant
from compilegate.job.contract import MODEL_VARIABLE
from compilegate.local import transform_program, xgboost
from compilegate.local.errors import ExecutionError, StepError, StepRequestError
from compilegate.local.jobs.job import Input, Job, Output
from compilegate.local.jobs.sandbox import unpack_source
from compilegate.local.requests import RequestReader
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
    """The containers of a CreateModel request, first to last. Raises StepRequestError."""
    reader = RequestReader(raw)
    if reader.has("PrimaryContainer"):
        return (_container(reader.section("PrimaryContainer")),)
    found = tuple(_container(each) for each in reader.sections("Containers"))
    if not found:
        raise StepRequestError("a model needs PrimaryContainer or Containers")
    return found


def _container(reader: RequestReader) -> ModelContainer:
    uri = reader.uri("ModelDataUrl") if reader.has("ModelDataUrl") else None
    if uri is None and reader.has("ModelDataSource"):
        uri = reader.section("ModelDataSource").section("S3DataSource").uri("S3Uri")
    return ModelContainer(reader.text("Image"), uri, reader.variables("Environment"))


def read_model(name: str, path: Path) -> Mapping[str, Any]:
    """A model that no step makes: a CreateModel request, or the answer of DescribeModel. Raises
    ExecutionError."""
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


@dataclass(kw_only=True)
class TransformJob(Job):
    kind = "Transform"
    start_folder = "model"
    config_folder = "input/config"
    message_file = "output/message"

    unpacked: Mapping[str, str]
    """Target folders by URI of an archive or folder: the model, its code."""
    code: str

    @property
    def gpus(self) -> int:
        return 0  # a prediction here is computed on the cores

    @property
    def input_uris(self) -> tuple[str, ...]:
        return (*super().input_uris, *self.unpacked)

    def stage(self) -> list[Path]:
        files = super().stage()
        for uri, folder in self.unpacked.items():
            target = self.sandbox.make(folder)
            if self.store.path(uri).is_file():
                unpack_source(self.store.path(uri), target)
            else:
                self.store.download(uri, target)
        for name, path in _PROGRAMS.items():
            shutil.copyfile(path, self.sandbox.path(_CONFIG) / name)
        return files

    def source_folder(self) -> Path | None:
        folder = self.sandbox.path(self.code)
        return folder if folder.is_dir() else None


def read_transform_request(raw: Mapping[str, Any]) -> TransformJob:
    """Read a resolved request; `Model` in it is the description of the model that it names. Raises
    StepRequestError."""
    reader = RequestReader(raw)
    source, target = reader.section("TransformInput"), reader.section("TransformOutput")
    s3 = source.section("DataSource").section("S3DataSource")
    s3.one_of("S3DataType", "S3Prefix")
    containers = read_containers(raw["Model"])
    if len(containers) > 1:
        raise StepRequestError(
            f"its model has {len(containers)} containers, and one is supported "
            "here; transform with each of them in its own step"
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
        "split_lines": source.one_of("SplitType", "None", "Line") == "Line",
        "gzipped": source.one_of("CompressionType", "None", "Gzip") == "Gzip",
        "assemble_lines": target.one_of("AssembleWith", "None", "Line") == "Line",
        "one_by_one": reader.one_of("BatchStrategy", "MultiRecord", "SingleRecord")
        == "SingleRecord",
        "model": _MODEL,
        "input": "/opt/ml/input/data",
        "output": "/opt/ml/output/data",
    }
    job = TransformJob(
        image=image,
        entrypoint=("python", f"{_CONFIG}/transform.py", json.dumps(plan)),
        environment={"SAGEMAKER_BATCH": "true", MODEL_VARIABLE: _MODEL, **environment},
        inputs=(Input(s3.uri("S3Uri"), plan["input"]),),
        outputs=(Output(target.uri("S3OutputPath"), plan["output"]),),
        max_seconds=432_000,  # the service's own limit, five days
        raw={name: value for name, value in raw.items() if name != "Model"},
        unpacked=unpacked,
        code=plan["code"],
        algorithm=None if program else xgboost.algorithm_of(image),
    )
    filters = {plan["input_filter"], plan["output_filter"]}
    if not plan["split_lines"] and (plan["join"] or filters != {"$"}):
        raise StepRequestError("DataProcessing needs TransformInput.SplitType Line")
    if job.algorithm is not None:
        _check_algorithm(job.algorithm, plan["content_type"])
    return job


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
    return {**found, "join": reader.one_of("JoinSource", "None", "Input") == "Input"}


def _check_algorithm(algorithm: str, content_type: str) -> None:
    if algorithm != xgboost.XGBOOST:
        raise StepRequestError(xgboost.REFUSAL.format(algorithm))
    known = content_type and not isinstance(content_type, Unresolved)
    if known and not xgboost.is_csv(content_type):
        raise StepRequestError(f"TransformInput: {xgboost.NO_CSV.format(content_type)}")
