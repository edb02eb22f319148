"""The service's API as it is spoken here: requests are read, answers have its forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from compilegate.document.expressions import Unresolved
from compilegate.local.errors import StepRequestError

ACCOUNT = "arn:aws:sagemaker:local:000000000000"
"""How every ARN here begins."""
INSTEAD = "replace the step by a command (--command), or leave it out (--skip)"
"""What to do about a step that cannot run here."""

_HTTPS = re.compile(
    r"https://(?:(?P<bucket>[a-z0-9.\-]+)\.)?s3[.\-](?:[a-z0-9.\-]+\.)?amazonaws\.com(?:\.cn)?"
    r"/(?P<rest>.+)"
)
"""An object's https address, with its bucket in the host's name or in the path."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_SECONDS = 2_419_200
"""The service's own limit of a training job, 28 days."""
_REQUIRED: Any = object()


def iso_time(timestamp: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC."""
    return datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="milliseconds")


def s3_uri(place: str) -> str:
    """An https address of S3 as an s3:// URI; anything else as it is."""
    match = _HTTPS.fullmatch(place)
    if match is None:
        return place
    return "s3://" + "/".join(filter(None, match.group("bucket", "rest")))


class RequestReader:
    """Reads the members of a request, which is a step's resolved Arguments.

    Every error names the member, what was found and what is expected. Before an execution starts,
    some values are still Unresolved: they count as right.
    """

    def __init__(self, raw: Mapping[str, Any], where: str = "") -> None:
        self._raw = raw
        self._where = where

    def has(self, key: str) -> bool:
        """Whether the member is there and not null."""
        return self._raw.get(key) is not None

    def path(self, key: str) -> str:
        """How errors name a member."""
        return f"{self._where}.{key}" if self._where else key

    def text(self, key: str) -> str:
        return self._string(key, self._member(key, object, "a string"))

    def text_or(self, key: str, default: str) -> str:
        """A string, or `default` when the member is absent."""
        return self.text(key) if self.has(key) else default

    def uri(self, key: str) -> str:
        """A place in S3, which the service takes by its https address too."""
        value = self.text(key)
        return value if isinstance(value, Unresolved) else s3_uri(value)

    def one_of(self, key: str, *allowed: str, default: str | None = None) -> str:
        """A string with few values; when it is absent, `default` or the first of them."""
        value = self.text_or(key, default or allowed[0])
        if isinstance(value, Unresolved) or value in allowed:
            return value
        raise StepRequestError(
            f"{self.path(key)} is {value!r:.80}; supported here: {', '.join(allowed)}; {INSTEAD}"
        )

    def integer_or(self, key: str, default: int) -> int:
        """A whole number; `default` when the member is absent or not known yet."""
        value = self._raw.get(key)
        if value is None or isinstance(value, Unresolved):
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, value, "a whole number")
        return value

    def max_seconds(self) -> int:
        """How long the job may run: a day, where its StoppingCondition does not say."""
        key = "MaxRuntimeInSeconds"
        condition = self.section_or_empty("StoppingCondition")
        seconds = condition.integer_or(key, 86_400)
        if not 1 <= seconds <= _MOST_SECONDS:
            found = f"{condition.path(key)} is {seconds:.3g}"
            raise StepRequestError(f"{found}, expected 1 to {_MOST_SECONDS}")
        return seconds

    def section(self, key: str) -> RequestReader:
        return RequestReader(self._member(key, Mapping, "an object"), self.path(key))

    def section_or_empty(self, key: str) -> RequestReader:
        """An object; an empty one when the member is absent."""
        return RequestReader(self._member(key, Mapping, "an object", {}), self.path(key))

    def sections(self, key: str) -> list[RequestReader]:
        expected = "a list of objects"
        items = self._member(key, list, expected, [])
        if not all(isinstance(item, Mapping) for item in items):
            raise self._wrong(key, items, expected)
        return [RequestReader(item, f"{self.path(key)}[{i}]") for i, item in enumerate(items)]

    def texts(self, key: str) -> list[str]:
        items = self._member(key, list, "a list of strings", [])
        return [self._string(f"{key}[{i}]", item) for i, item in enumerate(items)]

    def text_map(self, key: str) -> dict[str, str]:
        """An object whose values are strings; empty when the member is absent."""
        section = self._member(key, Mapping, "an object", {})
        return {name: self._string(f"{key}.{name}", value) for name, value in section.items()}

    def variables(self, key: str) -> dict[str, str]:
        """Environment variables; an absent member has none."""
        found = self.text_map(key)
        for name in found:
            if not _VARIABLE.fullmatch(name):
                raise StepRequestError(
                    f"{self.path(key)} names the variable {name!r:.60}, expected letters, digits "
                    "and '_', no digit first"
                )
        return found

    def _member(self, key: str, kind: type, expected: str, default: Any = _REQUIRED) -> Any:
        value = self._raw.get(key)
        if value is None and default is _REQUIRED:
            raise StepRequestError(f"{self.path(key)} is missing")
        if value is None:
            return default
        if not isinstance(value, kind):
            raise self._wrong(key, value, expected)
        return value

    def _string(self, key: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        if "\0" in value:
            raise self._wrong(key, value, "a string without NUL")
        return value

    def _wrong(self, key: str, value: Any, expected: str) -> StepRequestError:
        return StepRequestError(f"{self.path(key)} is {value!r:.80}, expected {expected}")
