"""Typed access to a JSON object; every error names the file, the key and what was found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from compilegate.job.evidence.record import EvidenceError, Scalar


class JsonObject:
    """Typed access to a JSON object; every error names the file, the key and what was found."""

    def __init__(self, where: str, raw: Mapping[str, Any]) -> None:
        self._where = where
        self._raw = raw

    def text(self, key: str) -> str:
        return self._typed(key, str, "a string")  # pyrefly: ignore[no-any-return-explicit]

    def optional_text(self, key: str) -> str | None:
        return None if self._value(key) is None else self.text(key)

    def one_of(self, key: str, allowed: Sequence[str]) -> str:
        value = self.text(key)
        if value not in allowed:
            raise self._wrong(key, value, " or ".join(map(repr, allowed)))
        return value

    def boolean(self, key: str) -> bool:
        return self._typed(key, bool, "true or false")  # pyrefly: ignore[no-any-return-explicit]

    def integer(self, key: str) -> int:
        value = self._typed(key, int, "a whole number")
        if isinstance(value, bool) or value < 0:
            raise self._wrong(key, value, "a whole number of zero or more")
        return int(value)

    def number(self, key: str) -> float:
        return self._finite(key, self._value(key))

    def optional_number(self, key: str) -> float | None:
        return None if self._value(key) is None else self.number(key)

    def section(self, key: str) -> JsonObject:
        return JsonObject(f"{self._where}: {key}", self._typed(key, dict, "an object"))

    def sections(self, key: str) -> list[JsonObject]:
        items: list[Any] = self._typed(key, list, "a list")
        for number, item in enumerate(items):
            if not isinstance(item, dict):
                raise self._wrong(f"{key}[{number}]", item, "an object")
        where = f"{self._where}: {key}"
        return [JsonObject(f"{where}[{number}]", item) for number, item in enumerate(items)]

    def scalars(self, key: str) -> dict[str, Scalar]:
        section: dict[str, Any] = self._typed(key, dict, "an object")
        for name, value in section.items():
            if value is not None and not isinstance(value, (str, int, float, bool)):
                raise self._wrong(f"{key}.{name}", value, "a string, number, true, false or null")
        return section

    def numbers(self, key: str) -> dict[str, float]:
        section: dict[str, Any] = self._typed(key, dict, "an object")
        # A non-finite metric is kept: naming it is the gate's business, with its own reason.
        return {name: self._float(f"{key}.{name}", value) for name, value in section.items()}

    def texts(self, key: str) -> dict[str, str]:
        section: dict[str, Any] = self._typed(key, dict, "an object")
        for name, value in section.items():
            if not isinstance(value, str):
                raise self._wrong(f"{key}.{name}", value, "a string")
        return section

    def _value(self, key: str) -> Any:
        if key not in self._raw:
            raise EvidenceError(f"{self._where}: {key} is missing")
        return self._raw[key]

    def _typed(self, key: str, expected: type, words: str) -> Any:
        value = self._value(key)
        if not isinstance(value, expected):
            raise self._wrong(key, value, words)
        return value

    def _finite(self, key: str, value: Any) -> float:
        number = self._float(key, value)
        if not math.isfinite(number) or number < 0:
            raise self._wrong(key, value, "a finite number of zero or more")
        return number

    def _float(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(key, value, "a number")
        try:
            return float(value)
        except OverflowError as error:  # JSON has whole numbers of any size
            raise self._wrong(key, value, "a number") from error

    def _wrong(self, key: str, value: Any, expected: str) -> EvidenceError:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return EvidenceError(f"{self._where}: {key} is {shown}, expected {expected}")
