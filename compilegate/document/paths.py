"""Paths into JSON documents: `ProcessingOutputConfig.Outputs['gate'].S3Output.S3Uri`, `a[0].b`.

Pipelines use one notation twice, with one difference: a property path (Get) may pick a list's
member by its name, a JsonGet path may not. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from compilegate.errors import CompilegateError

Segment = str | int

_TOKEN = re.compile(
    r"""(?P<dot>\.)?(?P<name>[^.\[\]'"\s]+)
      | \[(?P<index>\d+)\]
      | \['(?P<single>[^']*)'\]
      | \["(?P<double>[^"]*)"\]""",
    re.VERBOSE,
)

# The member that names an element, in each list of a Describe* response that can be picked by name.
_NAMING_MEMBERS = ("OutputName", "InputName", "MetricName", "ChannelName", "Name")


class ExpressionError(CompilegateError):
    """A path is malformed, or a Get, Std:Join, Std:JsonGet or condition has no value."""


def parse_path(text: str) -> tuple[Segment, ...]:
    """The segments of a dotted and bracketed path; a leading `$` is allowed.

    Raises ExpressionError for anything else, filters and wildcards included.
    """
    body = text[1:] if re.match(r"\$([.\[]|$)", text) else text
    segments: list[Segment] = []
    position = 0
    while position < len(body):
        match = _TOKEN.match(body, position)
        # A name follows a dot, except at the very start: `a.b`, `$.a`, but not `a['b']c`.
        if match is None or (match["name"] and not match["dot"] and position > 0):
            raise ExpressionError(f"path {text!r} is malformed at character {position + 1}")
        segments.append(_segment(match))
        position = match.end()
    if not segments:
        raise ExpressionError(f"path {text!r} is empty")
    return tuple(segments)


def _segment(match: re.Match[str]) -> Segment:
    if match["index"] is not None:
        return int(match["index"])
    name = match["name"] or match["single"] or match["double"]
    return name or ""


def lookup(document: Any, path: Sequence[Segment], *, by_name: bool = False) -> Any:
    """The value at `path` in `document`.

    With `by_name`, a text segment picks the list element whose naming member equals it.
    Raises ExpressionError that says how far the path led and what is there.
    """
    value = document
    for position, segment in enumerate(path):
        try:
            value = _step_into(value, segment, by_name)
        except LookupError:
            walked = format_path(path[:position]) or "the document"
            raise ExpressionError(
                f"{format_path(path)}: {walked} has no {segment!r}; it has {_content(value)}"
            ) from None
    return value


def _step_into(value: Any, segment: Segment, by_name: bool) -> Any:
    if isinstance(value, Mapping) and isinstance(segment, str):
        return value[segment]
    if isinstance(value, list) and isinstance(segment, int):
        return value[segment]
    if isinstance(value, list) and by_name:
        for element in value:
            names = [element.get(key) for key in _NAMING_MEMBERS if isinstance(element, Mapping)]
            if segment in names:
                return element
    raise LookupError


def format_path(path: Sequence[Segment]) -> str:
    """The path as text, in the notation that `parse_path` reads."""
    text = ""
    for segment in path:
        if isinstance(segment, int):
            text += f"[{segment}]"
        elif re.fullmatch(r"[^$.\[\]'\"\s][^.\[\]'\"\s]*", segment):
            text += f".{segment}" if text else segment
        else:
            quote = '"' if "'" in segment else "'"
            text += f"[{quote}{segment}{quote}]"
    return text


def _content(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(sorted(map(str, value))[:20]) or "no members"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return f"the {type(value).__name__} {value!r}"[:200]
