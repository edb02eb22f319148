"""What the service takes in a step's request, by the shapes of its API, which come with botocore.

botocore's own validator knows members and types. Enumerations, patterns, lengths and the sizes of
lists and maps are in the shapes as well, and are checked here, because a definition is an opaque
string to every tool between this machine and the service. Its file is read without
botocore.session, whose import takes ten times as long.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from compilegate.document.expressions import is_expression
from compilegate.document.step_types import STEP_TYPES

Shape = Mapping[str, Any]
"""`type`, `members`, `required`, `max`, `min`, `pattern`, `enum`, as far as it has them."""
ExpressionCheck = Callable[[Mapping[str, Any], Shape, str], Iterator[str]]
"""What is wrong with an expression where a value of that shape is expected, at that path."""

_FILE = "data/sagemaker/2017-07-24/service-2.json.gz"
_TYPES: Mapping[str, tuple[type, ...]] = {
    "structure": (dict,),
    "map": (dict,),
    "list": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
}


def unknown_members(step_type: str, request: Mapping[str, Any]) -> Iterator[str]:
    """A sentence, with the path first, for each member that the service does not know."""
    operation = STEP_TYPES[step_type].operation
    if operation is not None:
        for shape, found, where in _walk(_input(operation), request, ""):
            if shape is None:
                yield f"{where}: {found}"


def request_faults(
    step_type: str, request: Mapping[str, Any], name: str, check_expression: ExpressionCheck
) -> Iterator[str]:
    """A sentence for all that the service would refuse, with the path below the step's name."""
    known = STEP_TYPES[step_type]
    if known.operation is None:
        return
    named = {} if known.job_name is None else {known.job_name: "set-by-the-service"}
    for shape, value, where in _walk(_input(known.operation), {**named, **request}, name):
        if shape is None:
            yield f"{where}: {value}"
        elif is_expression(value):
            yield from check_expression(value, shape, where)
        elif not _is_of(shape["type"], value):
            yield f"{where} is {value!r:.80}, expected a value of type {shape['type']}"
        else:
            yield from _value_faults(shape, value, where)


def string_faults(value: str, shape: Shape, where: str) -> Iterator[str]:
    """What is wrong with a text."""
    import regex  # noqa: PLC0415  the service's patterns have Unicode classes; 20 ms

    allowed = shape.get("enum")
    if allowed and value not in allowed:
        close = get_close_matches(value, allowed, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        yield f"{where} is {value!r}, expected one of {len(allowed)} values{meant}"
    yield from _range_faults(len(value), f"has {len(value)} characters", shape, where)
    pattern = shape.get("pattern")
    if pattern and not regex.fullmatch(pattern, value, regex.DOTALL):
        yield f"{where} is {value!r}, expected a string that matches {pattern}"


def _range_faults(size: int, found: str, shape: Shape, where: str) -> Iterator[str]:
    if size > shape.get("max", size):
        yield f"{where} {found}, expected {shape['max']} at most"
    if size < shape.get("min", size):
        yield f"{where} {found}, expected {shape['min']} at least"


@cache
def _service() -> Mapping[str, Any]:
    content = files("botocore").joinpath(_FILE).read_bytes()
    return dict(json.loads(gzip.decompress(content)))


def _input(operation: str) -> Shape:
    return _of(_service()["operations"][operation]["input"])


def _walk(shape: Shape, value: Any, where: str) -> Iterator[tuple[Shape | None, Any, str]]:
    """The value and all that is in it, each with its shape and path; of a member that has no shape
    the sentence that it is unknown."""
    yield shape, value, where
    if is_expression(value) or not _is_of(shape["type"], value):
        return
    if shape["type"] == "list":
        for index, item in enumerate(value):
            yield from _walk(_of(shape["member"]), item, f"{where}[{index}]")
    elif shape["type"] in {"map", "structure"}:
        for key, item in value.items():
            path = f"{where}.{key}" if where else str(key)
            if shape["type"] == "map":
                yield from _walk(_of(shape["value"]), item, path)
            elif key in shape["members"]:
                yield from _walk(_of(shape["members"][key]), item, path)
            else:
                yield None, _unknown(key, [*shape["members"]]), path


def _unknown(key: str, known: Sequence[str]) -> str:
    close = get_close_matches(key, known, n=1)
    meant = f"; did you mean {close[0]}?" if close else f", expected one of {', '.join(known)}"
    return f"boto3 knows no such member{meant}"


def _of(reference: Mapping[str, str]) -> Shape:
    found: Shape = _service()["shapes"][reference["shape"]]
    return found


def _is_of(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, (object,)))


def _value_faults(shape: Shape, value: Any, where: str) -> Iterator[str]:
    """What is wrong with a value of the right type, apart from what is in it."""
    kind = shape["type"]
    for key in shape.get("required", ()):
        if key not in value:
            yield f"{where}.{key} is missing"
    if kind == "string":
        yield from string_faults(value, shape, where)
    elif kind in {"list", "map"}:
        yield from _range_faults(len(value), f"has {len(value)} entries", shape, where)
    elif kind in {"integer", "long"}:
        yield from _range_faults(value, f"is {value}", shape, where)
    if kind == "map":
        for key in value:
            yield from string_faults(key, _of(shape["key"]), f"{where}: the key")
