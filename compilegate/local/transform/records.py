"""Records of a transform job: split, filtered, put together again. Standard library only, and
Python 3.8, since `serving.py` uses it in an image's environment.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

CSV = "text/csv"
_JSON = ("application/json", "application/jsonlines", "application/x-jsonlines")
JOINED = "SageMakerOutput"
"""The member under which the service puts a prediction into a joined JSON record."""

Selector = Any
"""A name, an index, a slice, or several indices."""


class FilterError(ValueError):
    """A filter is malformed, or a record has not what it selects."""


_PART = re.compile(
    r"\.(?P<name>[A-Za-z_][\w\-]*)|\[\s*(?:'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\""
    r"|(?P<slice>-?\d*\s*:\s*-?\d*)|(?P<list>-?\d+(?:\s*,\s*-?\d+)*))\s*\]"
)


def parse_filter(text: str) -> list[Selector]:
    """The selectors of `$`, `$.a['b']`, `$[0]`, `$[1:]`, `$[0,2]`. Raises FilterError."""
    if not text.startswith("$"):
        raise FilterError(f"{text!r} does not begin with $")
    found: list[Selector] = []
    position = 1
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise FilterError(f"{text!r} is not supported here from character {position + 1} on")
        found.append(_selector(part))
        position = part.end()
    return found


def _selector(part: re.Match[str]) -> Selector:
    if part["slice"] is not None:
        start, end = (int(each) if each.strip() else None for each in part["slice"].split(":"))
        return slice(start, end)
    if part["list"] is not None:
        indices = tuple(int(each) for each in part["list"].split(","))
        return indices if len(indices) > 1 else indices[0]
    name = part["name"] or part["single"] or part["double"]
    return name or ""


def select(record: Any, selectors: Sequence[Selector]) -> Any:
    """What a filter leaves of a record. Raises FilterError."""
    for selector in selectors:
        try:
            if isinstance(selector, tuple):
                record = [record[index] for index in selector]
            else:
                record = record[selector]
        except (LookupError, TypeError):
            raise FilterError(f"a record has no {selector!r}: {str(record)[:80]}") from None
    return record


def parse_record(line: str, content_type: str) -> Any:
    """One line as its columns, or as its JSON. Raises FilterError."""
    kind = content_type.split(";", maxsplit=1)[0].strip().lower()
    if kind in _JSON:
        try:
            return json.loads(line)
        except ValueError as error:
            raise FilterError(f"a record is not JSON: {error}: {line[:80]}") from None
    if kind == CSV:
        return next(csv.reader([line]), [])
    raise FilterError(
        f"records of {content_type or 'no content type'} cannot be filtered or joined"
    )


def write_record(record: Any, content_type: str) -> str:
    """A record as one line, without its end."""
    if content_type.split(";", maxsplit=1)[0].strip().lower() == CSV:
        out = io.StringIO()
        csv.writer(out, lineterminator="").writerow(
            record if isinstance(record, list) else [record]
        )
        return out.getvalue()
    return json.dumps(record)


def joined(record: Any, prediction: Any) -> Any:
    """A record and its prediction as one record."""
    if isinstance(record, dict):
        return {**record, JOINED: prediction}
    others = prediction if isinstance(prediction, list) else [prediction]
    return [*record, *others] if isinstance(record, list) else [record, *others]


def predictions(response: str, accept: str, count: int) -> list[Any]:
    """The predictions for `count` records in one response. Raises FilterError."""
    lines = [line for line in response.splitlines() if line.strip()]
    kind = (accept or CSV).split(";")[0].strip().lower()
    kind = kind if kind in _JSON else CSV
    if kind == _JSON[0] and (count > 1 or len(lines) != 1):
        whole = parse_record(response, kind)
        found = whole.get("predictions", whole) if isinstance(whole, dict) else whole
        if isinstance(found, list) and len(found) == count:
            return found
    if len(lines) == count:
        parsed = [parse_record(line, kind) for line in lines]
        return [each[0] if kind == CSV and len(each) == 1 else each for each in parsed]
    if kind == CSV and len(lines) == 1 and len(next(csv.reader(lines))) == count:
        return list(next(csv.reader(lines)))
    raise FilterError(
        f"the response to {count} records has {len(lines)} lines: they cannot be joined or "
        "filtered; BatchStrategy SingleRecord sends them one by one"
    )


def batches(lines: Sequence[str], single: bool, payload_bytes: int) -> Iterator[list[str]]:
    """Lines in groups that fit a request."""
    group: list[str] = []
    size = 0
    for line in lines:
        length = len(line.encode()) + 1
        if group and (single or size + length > payload_bytes):
            yield group
            group, size = [], 0
        group.append(line)
        size += length
    if group:
        yield group
