"""Which members a step's request may have: those of the service's API, as botocore describes it.

botocore's file is read without botocore, whose import takes longer than the file.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from compilegate.document.expressions import is_expression
from compilegate.document.step_types import STEP_TYPES

_FILE = "data/sagemaker/2017-07-24/service-2.json"
_NAMED = 12
"""So many names of members are listed where none is close to the unknown one."""


def unknown_members(step_type: str, request: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each member that the service does not know, with its path.

    Without botocore's file every member counts as known.
    """
    operation = STEP_TYPES[step_type].operation
    service = _service()
    if operation is not None and service:
        shape = service["operations"][operation]["input"]["shape"]
        yield from _unknown(service["shapes"], shape, request, "")


@cache
def _service() -> Mapping[str, Any]:
    spec = find_spec("botocore")
    if spec is None or spec.origin is None:
        return {}
    packed = Path(spec.origin).parent / f"{_FILE}.gz"
    plain = packed.with_suffix("")
    content = gzip.decompress(packed.read_bytes()) if packed.is_file() else plain.read_bytes()
    found: Mapping[str, Any] = json.loads(content)
    return found


def _unknown(shapes: Mapping[str, Any], name: str, value: Any, where: str) -> Iterator[str]:
    shape = shapes[name]
    if shape["type"] == "list" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(shapes, shape["member"]["shape"], item, f"{where}[{index}]")
    if not isinstance(value, Mapping) or is_expression(value):
        return
    if shape["type"] == "map":
        for key, item in value.items():
            yield from _unknown(shapes, shape["value"]["shape"], item, f"{where}.{key}")
    if shape["type"] != "structure":
        return
    known = shape["members"]
    for key, item in value.items():
        path = f"{where}.{key}" if where else str(key)
        if key in known:
            yield from _unknown(shapes, known[key]["shape"], item, path)
            continue
        close = get_close_matches(key, known, n=1)
        if close:
            yield f"unknown member {path}; did you mean {close[0]}?"
        else:
            rest = ", ..." if len(known) > _NAMED else ""
            yield f"unknown member {path}, allowed are {', '.join([*known][:_NAMED])}{rest}"
