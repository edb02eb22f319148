"""The schema and the reference are those of the types, and the schema takes what validate takes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel

from compilegate.account.settings import Settings
from compilegate.workload import WorkloadFile
from compilegate.workload.json_schema import schema_of, workload_schema
from tools.write_reference import pages

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
WORKLOADS = [
    *sorted((PROJECT / "workloads").glob("*.toml")),
    PROJECT / "tests" / "pipelines" / "topics.toml",
]


def refused(declared: dict[str, Any]) -> list[str]:
    """The keys that the schema refuses."""
    errors = jsonschema.Draft7Validator(workload_schema()).iter_errors(declared)
    return sorted(".".join(map(str, error.path)) for error in errors)


@pytest.mark.slow
@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_what_is_published_is_made_from_the_types_as_they_are(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == pages()[path], "stale: run `make reference`"


def test_the_schema_is_one() -> None:
    meta = jsonschema.Draft7Validator(jsonschema.Draft7Validator.META_SCHEMA)
    assert [each.message for each in meta.iter_errors(workload_schema())] == []


@pytest.mark.parametrize("path", WORKLOADS, ids=lambda path: path.stem)
def test_workloads_that_are_read_fit_the_schema(path: Path) -> None:
    declared = tomllib.loads(path.read_text(encoding="utf-8"))
    WorkloadFile.model_validate(declared)
    assert refused(declared) == []


def test_an_editor_sees_what_validate_would_refuse() -> None:
    declared = tomllib.loads(WORKLOADS[-1].read_text(encoding="utf-8"))
    declared["arms"]["baseline"]["batch_size"] = 0
    declared["recipe"]["epoch"] = 2
    declared["data"]["padding"] = "none"
    assert refused(declared) == ["arms.baseline.batch_size", "data", "recipe"]


@pytest.mark.parametrize("file", [WorkloadFile, Settings])
def test_every_key_says_what_it_is(file: type[BaseModel]) -> None:
    schema = schema_of(file)
    tables = {"": schema, **schema["$defs"]}
    silent = [
        f"{table} {key}"
        for table, of in tables.items()
        for key, each in of["properties"].items()
        if "$ref" not in each and "description" not in each and key != "source"
    ]
    assert silent == []
