"""The JSON schema of a workload file, made from its types: what editors complete and check by.

    #:schema ./workload.schema.json

as the first line of a workload's file tells Taplo and Even Better TOML where it lies. It knows each
key, what it means, its default and its limits. What tables must be to each other, `validate` says.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from compilegate.job.compilers import compiler_options
from compilegate.workload.declaration.workload_file import WorkloadFile

DIALECT = "http://json-schema.org/draft-07/schema#"
"""What editors of TOML know. The schema uses no later keyword."""


def workload_schema() -> dict[str, Any]:
    """The schema of `workloads/NAME.toml`."""
    return {**schema_of(WorkloadFile), "title": "Compilegate workload"}


def schema_of(file: type[BaseModel]) -> dict[str, Any]:
    """The schema of a file, from the type that reads it, with the sentences below its fields."""
    schema = _without_null(file.model_json_schema(schema_generator=_WithDescriptions))
    return {"$schema": DIALECT, **schema, "$defs": schema["$defs"]}


def schema_text() -> str:
    """The schema as it is written to a file."""
    return json.dumps(workload_schema(), indent=2, ensure_ascii=False) + "\n"


class _WithDescriptions(GenerateJsonSchema):
    """Takes what stands below a field as the field's description."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        found = super().model_schema(schema)
        properties = found.get("properties", {})
        for name, text in descriptions_of(schema["cls"]).items():
            if name in properties:
                properties[name]["description"] = text
        return found


def descriptions_of(table: type[BaseModel]) -> dict[str, str]:
    """Descriptions by field: the docstring below it; a compiler's option describes itself."""
    found: dict[str, str] = {}
    for kind in reversed(table.__mro__):
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            found |= _below_fields(kind)
    options = {each.key: each.description for each in compiler_options().values()}
    return found | {key: text for key, text in options.items() if key in table.model_fields}


def _below_fields(kind: type[BaseModel]) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}  # made at run time, of options that describe themselves
    (definition,) = ast.parse(source).body
    if not isinstance(definition, ast.ClassDef):
        return {}
    return {
        field.target.id: " ".join(inspect.cleandoc(text.value.value).split())
        for field, text in zip(definition.body, definition.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _without_null(value: Any) -> Any:
    """TOML has no null: what may be None is left out. Nor do keys need titles beside names."""
    if isinstance(value, list):
        return [_without_null(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    schema = {key: each for key, each in value.items() if not _says_nothing(key, each)}
    found = {key: _without_null(each) for key, each in schema.items()}
    others = [each for each in found.pop("anyOf", []) if each != {"type": "null"}]
    if len(others) == 1:
        return {**others[0], **found}
    return {**found, **({"anyOf": others} if others else {})}


def _says_nothing(key: str, value: Any) -> bool:
    if key == "default":
        return value is None or isinstance(value, Mapping)  # a table's keys have their own defaults
    return (key == "title" and isinstance(value, str)) or _of(value) == "null"


def _of(value: Any) -> Any:
    return value.get("type") if isinstance(value, Mapping) else None
