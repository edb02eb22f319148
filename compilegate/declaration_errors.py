"""Read a file that people write; a sentence for each problem names the key, its value and what is
expected. The problems of workloads, experiments and settings are those that pydantic finds.
"""

from __future__ import annotations

import difflib
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from compilegate.errors import CompilegateError

Location = tuple[str | int, ...]
Declared = TypeVar("Declared", bound=BaseModel)

IN_WORDS: dict[str, str] = {}
"""What a pattern allows, in words."""


def matching(pattern: str, words: str, max_length: int | None = None) -> StringConstraints:
    """A string of this pattern; `words` describe it, with an example."""
    IN_WORDS[pattern] = words
    return StringConstraints(pattern=pattern, max_length=max_length)


def read_toml(path: Path, declaration: type[Declared], refused: type[CompilegateError]) -> Declared:
    """Read and validate a TOML file. Raises `refused`, with a sentence for each problem."""
    return validate(path, parse_toml(path, refused), declaration, refused)


def parse_toml(path: Path, refused: type[CompilegateError]) -> dict[str, Any]:
    """Read a TOML file. Raises `refused`, with a sentence for what is wrong with its form."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise refused(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise refused(f"{path}: not UTF-8 text at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise refused(f"{path}: {_toml_sentence(str(error))}") from error


def validate(
    path: Path | str,
    raw: Mapping[str, Any],
    declaration: type[Declared],
    refused: type[CompilegateError],
) -> Declared:
    """Validate the content of a file. Raises `refused`, with a sentence for each problem."""
    try:
        return declaration.model_validate(raw)
    except ValidationError as error:
        raise refused(*sentences(path, error, declaration)) from error


def _toml_sentence(message: str) -> str:
    """tomllib's message, and what it means where a key or table is repeated."""
    if message.startswith("Cannot declare ('arms'"):
        return f"two arms have one name, expected each arm once: {message}"
    if message.startswith("Cannot overwrite a value"):
        return f"a key is given twice, expected each key once: {message}"
    return f"not valid TOML: {message}"


def sentences(path: Path | str, error: ValidationError, declaration: type[BaseModel]) -> list[str]:
    """One sentence per problem that pydantic found in the file at `path`."""
    return [f"{path}: {_sentence(details, declaration)}" for details in error.errors()]


def _sentence(details: ErrorDetails, declaration: type[BaseModel]) -> str:
    location = details["loc"]
    key = _dotted(location, declaration)
    found = _shown(details["input"])
    match details["type"]:
        case "extra_forbidden":
            return _unknown_key(location, key, declaration)
        case "missing":
            return f"{key} is missing"
        case "value_error":
            # Our own validators say what is wrong, of the key itself or in a sentence of its own.
            message = str(details["ctx"]["error"])
            of_the_key = message.startswith(("is ", "has ", "holds "))
            return f"{key}{' ' if of_the_key else ': '}{message}" if key else message
        case "union_tag_not_found":
            return f"{key}.source is missing, expected {_sources_at(location, declaration)}"
        case "union_tag_invalid":
            found = _shown(details["ctx"]["tag"])
            return f"{key}.source is {found}, expected {_sources_at(location, declaration)}"
        case _:
            return f"{key or 'the document'} is {found}, expected {_expected(details)}"


_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a string in quotes",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "finite_number": "a finite number",
    "literal_error": "{expected}",
    "greater_than": "a number greater than {gt}",
    "greater_than_equal": "a number of {ge} or more",
    "less_than": "a number less than {lt}",
    "multiple_of": "a multiple of {multiple_of}",
    "less_than_equal": "a number of {le} or less",
    "string_pattern_mismatch": "a string that matches {pattern}",
    "string_too_short": "a string of {min_length} or more characters",
    "string_too_long": "a string of at most {max_length} characters",
    "too_short": "{min_length} or more entries",
}
"""What is expected, by pydantic's type of error, filled in from the error's context."""


def _expected(details: ErrorDetails) -> str:
    words = _EXPECTED.get(details["type"])
    if details["type"] == "string_pattern_mismatch":
        words = IN_WORDS.get(details["ctx"]["pattern"], words)
    if words is None:
        return details["msg"][0].lower() + details["msg"][1:]
    return words.format_map(details.get("ctx", {}))


def _unknown_key(location: Location, key: str, declaration: type[BaseModel]) -> str:
    allowed = _keys_at(location[:-1], declaration)
    close = difflib.get_close_matches(str(location[-1]), allowed, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"{key} is not a known key{hint}, expected {', '.join(allowed)}"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _dotted(location: Location, declaration: type[BaseModel]) -> str:
    """The key as one would write it in TOML, without the tags that pydantic adds for unions."""
    parts: list[str] = []
    models: list[object] = [declaration]
    for part in location:
        if any(_is_tag(part, model) for model in models):
            models = [_tagged(part, model) for model in models if _is_tag(part, model)]
            continue
        if part == "[key]":
            continue
        parts.append(f"[{part}]" if isinstance(part, int) else str(part))
        models = [kind for model in models for kind in _below(part, model)]
    return ".".join(parts).replace(".[", "[")


def _keys_at(location: Location, declaration: type[BaseModel]) -> list[str]:
    return sorted(
        {
            field
            for kind in _kinds_at(location, declaration)
            if isinstance(kind, type) and issubclass(kind, BaseModel)
            for field in kind.model_fields
        }
    )


def _sources_at(location: Location, declaration: type[BaseModel]) -> str:
    return " or ".join(repr(_source_of(kind)) for kind in _kinds_at(location, declaration))


def _kinds_at(location: Location, declaration: type[BaseModel]) -> list[object]:
    """The types that the value at `location` may have, members of a union one by one."""
    models: list[object] = [declaration]
    for part in location:
        tagged = [_tagged(part, model) for model in models if _is_tag(part, model)]
        models = tagged or [kind for model in models for kind in _below(part, model)]
    return [kind for model in models for kind in _unwrapped(model)]


def _below(part: str | int, model: object) -> Iterable[object]:
    """The types that the value at key `part` of `model` may have."""
    for kind in _unwrapped(model):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = kind.model_fields.get(str(part))
            if field is not None:
                yield field.annotation
        elif typing.get_origin(kind) is dict:
            yield typing.get_args(kind)[1]


def _is_tag(part: str | int, model: object) -> bool:
    kinds = list(_unwrapped(model))
    return len(kinds) > 1 and any(_source_of(kind) == part for kind in kinds)


def _tagged(part: str | int, model: object) -> object:
    return next(kind for kind in _unwrapped(model) if _source_of(kind) == part)


def _source_of(kind: object) -> object:
    if isinstance(kind, type) and issubclass(kind, BaseModel) and "source" in kind.model_fields:
        return typing.get_args(kind.model_fields["source"].annotation)[0]
    return None


def _unwrapped(model: object) -> Iterable[object]:
    """The members of a union, the type inside Annotated, or the type itself."""
    origin = typing.get_origin(model)
    if origin is typing.Annotated:
        yield from _unwrapped(typing.get_args(model)[0])
    elif origin in (typing.Union, types.UnionType):
        for member in typing.get_args(model):
            yield from _unwrapped(member)
    else:
        yield model
