"""The rules that a workload's posture goes by: the `[posture]` table, in the standard library.

`compilegate.workload.file` reads the table and takes every default from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from compilegate.posture.errors import PostureError


@dataclass(frozen=True, kw_only=True)
class Policy:
    """When a candidate is promoted, audited and given up."""

    passes: int = 4
    """So many passes of the gate in a row promote a candidate, the benchmark's included."""
    shadow_days: float = 7.0
    """Nothing is promoted before so many days in shadow: the first week runs both versions."""
    watch_days: float = 30.0
    """A model trained within so many days of the promotion is tagged as watched."""
    audit_every: int = 8
    """In `on`, one execution in so many trains all arms."""
    patience: int = 24
    """Trying ends after so many executions without a promotion: the sequential test's looks. A
    failed execution that is repeated begins the count anew."""
    reference_days: float = 90.0
    """Reference metrics that are older are not compared with; an audit renews them."""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Policy:
        """The policy from its JSON; a key that is not known is an error."""
        known: dict[str, type] = {field.name: type(field.default) for field in fields(cls)}
        for name, value in document.items():
            if name not in known:
                raise PostureError(f"posture: unknown key {name}, allowed: {', '.join(known)}")
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise PostureError(f"posture.{name} is {value!r}, allowed: a number above 0")
        values: dict[str, Any] = {name: known[name](value) for name, value in document.items()}
        return cls(**values)

    def document(self) -> dict[str, Any]:
        """As JSON; `read` is the inverse."""
        return asdict(self)
