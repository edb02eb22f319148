"""One statement of a policy. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Allows actions on resources. A wildcard must give its reason.

    Raises ValueError for a wildcard in an action, and for one in a resource without a reason:
    such a statement must not reach a template.
    """

    sid: str
    actions: Sequence[str]
    resources: Sequence[str]
    conditions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    because: str | None = None
    """Why the resources cannot be named one by one."""

    def __post_init__(self) -> None:
        for action in self.actions:
            if "*" in action:
                raise ValueError(
                    f"{self.sid}: action {action}, allowed: actions by their full name"
                )
        if self.because is None:
            for resource in self.resources:
                if "*" in resource:
                    raise ValueError(
                        f"{self.sid}: resource {resource} without a reason, allowed: "
                        "a wildcard with `because`"
                    )

    def document(self) -> dict[str, Any]:
        """The statement as IAM expects it."""
        return {
            "Sid": self.sid,
            "Effect": "Allow",
            "Action": list(self.actions),
            "Resource": list(self.resources),
            **({"Condition": dict(self.conditions)} if self.conditions else {}),
        }
