"""A role as the two documents that any tool makes it from. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compilegate.access.statement import Statement

LARGEST_POLICY = 10_240
"""How many characters IAM allows for all inline policies of a role together."""
LONGEST_NAME = 64


@dataclass(frozen=True, kw_only=True)
class Role:
    """What may assume it, and what it may do."""

    name: str
    description: str
    trust: dict[str, Any]
    statements: Sequence[Statement]

    @property
    def policy(self) -> dict[str, Any]:
        return {
            "Version": "2012-10-17",
            "Statement": [statement.document() for statement in self.statements],
        }

    @property
    def faults(self) -> list[str]:
        """A sentence for each limit of IAM that it is over."""
        found = []
        size = len(json.dumps(self.policy, separators=(",", ":")))
        if size > LARGEST_POLICY:
            found.append(
                f"the policy of {self.name} has {size:,} characters, allowed: {LARGEST_POLICY:,}"
            )
        if len(self.name) > LONGEST_NAME:
            found.append(
                f"the role {self.name} has a name of {len(self.name)} characters, allowed: "
                f"{LONGEST_NAME}"
            )
        return found


def trust_of(service: str, account: str, source_arn: str | None = None) -> dict[str, Any]:
    """The service, acting for this account only (and for that resource, when one is given)."""
    conditions: dict[str, Any] = {"StringEquals": {"aws:SourceAccount": account}}
    if source_arn is not None:
        conditions["ArnLike"] = {"aws:SourceArn": source_arn}
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": f"{service}.amazonaws.com"},
                "Action": "sts:AssumeRole",
                "Condition": conditions,
            }
        ],
    }
