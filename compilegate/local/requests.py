"""The service's API as it is spoken here: requests are read, answers have its forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from compilegate.document.evaluation import Unresolved
from compilegate.local.errors import StepRequestError

ACCOUNT = "arn:aws:sagemaker:local:000000000000"
"""How every ARN here begins."""

_HTTPS = re.compile(
    r"https://(?:(?P<bucket>[a-z0-9.\-]+)\.)?s3[.\-](?:[a-z0-9.\-]+\.)?amazonaws\.com(?:\.cn)?"
    r"/(?P<rest>.+)"
)
"""An object's https address, with its bucket in the host's name or in the path."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_SECONDS = 2_419_200
"""The service's own limit of a training job, 28 days."""


def iso_time(timestamp: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC."""
    return datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="milliseconds")


def s3_uri(place: str) -> str:
    """An https address of S3 as an s3:// URI; anything else as it is."""
    match = _HTTPS.fullmatch(place)
    if match is None:
        return place
    bucket = match["bucket"]
    return f"s3://{match['rest']}" if bucket is None else f"s3://{bucket}/{match['rest']}"


class RequestReader:
    """Reads the members of a request, which is a step's resolved Arguments.

    Every error names the member, what was found and what is expected.

    Before an execution starts, some values are still Unresolved: they count as right.
    """

    def __init__(self, raw: Mapping[str, Any], where: str = "") -> None:
        self._raw = raw
        self._where = where

    def has(self, key: str) -> bool:
        """Whether the member is there and not null."""
        return self._raw.get(key) is not None

    def text(self, key: str) -> str:
        """A member that must be a string."""
        value = self._value(key)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        return value

    def uri(self, key: str) -> str:
        """A place in S3, which the service takes by its https address too."""
        value = self.text(key)
        return value if isinstance(value, Unresolved) else s3_uri(value)

    def text_or(self, key: str, default: str) -> str:
        """A string, or `default` when the member is absent."""
        return self.text(key) if self.has(key) else default

    def integer_or(self, key: str, default: int) -> int:
        """A whole number; `default` when the member is absent or not known yet."""
        if not self.has(key):
            return default
        value = self._value(key)
        if isinstance(value, Unresolved):
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, value, "a whole number")
        return value

    def max_seconds(self) -> int:
        """How long the job may run: a day, where its StoppingCondition does not say."""
        condition = self.section_or_empty("StoppingCondition")
        seconds = condition.integer_or("MaxRuntimeInSeconds", 86_400)
        if not 1 <= seconds <= _MOST_SECONDS:
            raise StepRequestError(
                f"{self._path('StoppingCondition')}.MaxRuntimeInSeconds is {seconds:.3g}, allowed: "
                f"1 to {_MOST_SECONDS}"
            )
        return seconds

    def flag(self, key: str) -> bool:
        """True or false; an absent member is false."""
        value = self._raw.get(key)
        if value is None or isinstance(value, Unresolved):
            return False
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def section(self, key: str) -> RequestReader:
        """A member that must be an object."""
        value = self._value(key)
        if not isinstance(value, Mapping):
            raise self._wrong(key, value, "an object")
        return RequestReader(value, self._path(key))

    def section_or_empty(self, key: str) -> RequestReader:
        """An object; an empty one when the member is absent."""
        return self.section(key) if self.has(key) else RequestReader({}, self._path(key))

    def sections(self, key: str) -> list[RequestReader]:
        """A list of objects; empty when the member is absent."""
        return [
            RequestReader(item, f"{self._path(key)}[{index}]")
            for index, item in enumerate(self._items(key, Mapping, "objects"))
        ]

    def texts(self, key: str) -> list[str]:
        """A list of strings; empty when the member is absent."""
        return list(self._items(key, str, "strings"))

    def text_map(self, key: str) -> dict[str, str]:
        """An object whose values are strings; empty when the member is absent."""
        if not self.has(key):
            return {}
        section = self._value(key)
        if not isinstance(section, Mapping):
            raise self._wrong(key, section, "an object")
        for name, value in section.items():
            if not isinstance(value, str):
                raise self._wrong(f"{key}.{name}", value, "a string")
            if "\0" in value:
                raise self._wrong(f"{key}.{name}", value, "a string without NUL")
        return dict(section)

    def variables(self, key: str) -> dict[str, str]:
        """Environment variables; an absent member has none."""
        found = self.text_map(key)
        for name in found:
            if not _VARIABLE.fullmatch(name):
                raise StepRequestError(
                    f"{self._path(key)} names the variable {name!r:.60}, allowed: letters, digits "
                    "and '_', a digit not first"
                )
        return found

    def _items(self, key: str, kind: type, expected: str) -> list[Any]:
        if not self.has(key):
            return []
        value = self._value(key)
        if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
            raise self._wrong(key, value, f"a list of {expected}")
        if any(isinstance(item, str) and "\0" in item for item in value):
            raise self._wrong(key, value, "strings without NUL")
        return value

    def _value(self, key: str) -> Any:
        if not self.has(key):
            raise StepRequestError(f"{self._path(key)} is missing")
        return self._raw[key]

    def _path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def _wrong(self, key: str, value: Any, expected: str) -> StepRequestError:
        return StepRequestError(f"{self._path(key)} is {value!r:.80}, expected {expected}")
