"""A CreateModel request, as far as a local run needs it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.document.reading import refuse_constant
from compilegate.local.errors import ExecutionError, StepError, StepRequestError
from compilegate.local.requests import RequestReader


@dataclass(frozen=True)
class ModelContainer:
    """An image with a model's files and environment."""

    image: str
    data_uri: str | None
    environment: Mapping[str, str]


def read_containers(raw: Mapping[str, Any]) -> tuple[ModelContainer, ...]:
    """The containers of a resolved request, first to last.

    Raises StepRequestError for what is missing, mistyped or unsupported.
    """
    reader = RequestReader(raw)
    if reader.has("PrimaryContainer"):
        return (_container(reader.section("PrimaryContainer")),)
    found = tuple(_container(each) for each in reader.sections("Containers"))
    if not found:
        raise StepRequestError("a model needs PrimaryContainer or Containers")
    return found


def read_model(name: str, path: Path) -> Mapping[str, Any]:
    """A model that is made elsewhere: a CreateModel request, or the answer of DescribeModel.

    Raises ExecutionError.
    """
    try:
        found = json.loads(path.read_bytes(), parse_constant=refuse_constant)
    except (OSError, ValueError, RecursionError) as error:
        raise ExecutionError(f"--model {name}: {path} cannot be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise ExecutionError(
            f"--model {name}: {path} holds {found!r:.60}, expected an object such as "
            '{"PrimaryContainer": {"Image": "...", "ModelDataUrl": "s3://..."}}'
        )
    try:
        read_containers(found)
    except StepError as error:
        raise ExecutionError(f"--model {name}: {path}: {error}") from error
    return {**found, "ModelName": name}


def _container(reader: RequestReader) -> ModelContainer:
    if reader.has("ModelPackageName") and not reader.has("Image"):
        raise StepRequestError(
            "a container with ModelPackageName alone is not supported here: name its Image and "
            "ModelDataUrl"
        )
    return ModelContainer(reader.text("Image"), _data_uri(reader), reader.variables("Environment"))


def _data_uri(reader: RequestReader) -> str | None:
    if reader.has("ModelDataUrl"):
        return reader.uri("ModelDataUrl")
    if reader.has("ModelDataSource"):
        return reader.section("ModelDataSource").section("S3DataSource").uri("S3Uri")
    return None
