"""ARNs, statements and roles: what any tool makes a policy from. Pure.

Each part of an ARN may be a CloudFormation token.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol

LARGEST_POLICY = 10_240
"""How many characters IAM allows for all inline policies of a role together."""
LONGEST_NAME = 64
MANY_OBJECTS = "Keys hold digests and execution IDs; this is their common prefix"


class Somewhere(Protocol):
    """What knows its partition, region and account, as a stack of the CDK does, or a session."""

    @property
    def partition(self) -> str: ...

    @property
    def region(self) -> str: ...

    @property
    def account(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Arns:
    """Makes ARNs of one account and region as text, so that a statement reads like the policy it
    becomes."""

    partition: str
    region: str
    account: str

    @classmethod
    def of(cls, stack: Somewhere) -> Arns:
        return cls(partition=stack.partition, region=stack.region, account=stack.account)

    def of_service(self, service: str, resource: str) -> str:
        """An ARN in this account and region: `sagemaker`, `pipeline/news`."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def sagemaker(self, resource: str) -> str:
        return self.of_service("sagemaker", resource)

    def function(self, name: str) -> str:
        """Made from a function's name, so that what calls it does not depend on it."""
        return self.of_service("lambda", f"function:{name}")

    def log_group(self, name: str) -> str:
        return self.of_service("logs", f"log-group:{name}")

    def repository(self, name: str, account: str | None = None) -> str:
        """An ECR repository of this region, in another account when one is given."""
        owner = account or self.account
        return f"arn:{self.partition}:ecr:{self.region}:{owner}:repository/{name}"

    def bucket(self, name: str) -> str:
        return f"arn:{self.partition}:s3:::{name}"

    def role(self, name: str) -> str:
        return f"arn:{self.partition}:iam::{self.account}:role/{name}"

    def policy(self, name: str) -> str:
        return f"arn:{self.partition}:iam::{self.account}:policy/{name}"


@dataclass(frozen=True)
class Statement:
    """Allows actions on resources. A wildcard must give its reason.

    Raises ValueError for a wildcard in an action, and for one in a resource without a reason:
    such a statement must not reach a template.
    """

    sid: str
    actions: Sequence[str]
    resources: Sequence[str]
    _: KW_ONLY
    conditions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    because: str | None = None
    """Why the resources cannot be named one by one."""

    def __post_init__(self) -> None:
        for action in self.actions:
            if "*" in action:
                raise ValueError(f"{self.sid}: action {action}, allowed: actions by full name")
        for resource in self.resources if self.because is None else ():
            if "*" in resource:
                raise ValueError(
                    f"{self.sid}: resource {resource} without a reason, allowed: a wildcard with "
                    "`because`"
                )

    def document(self) -> dict[str, Any]:
        return {
            "Sid": self.sid,
            "Effect": "Allow",
            "Action": list(self.actions),
            "Resource": list(self.resources),
            **({"Condition": dict(self.conditions)} if self.conditions else {}),
        }


def may(
    sid: str,
    *actions: str,
    on: Sequence[str],
    when: Mapping[str, Mapping[str, Any]] | None = None,
    because: str | None = None,
) -> Statement:
    """A statement, in the order in which it is read."""
    return Statement(sid, actions, on, conditions=when or {}, because=because)


def may_objects(sid: str, *actions: str, bucket: str, below: Iterable[str]) -> Statement:
    """A statement on the objects below these prefixes of the bucket with this ARN."""
    return may(sid, *actions, on=[f"{bucket}/{each}*" for each in below], because=MANY_OBJECTS)


def may_list(sid: str, bucket: str, below: Iterable[str]) -> Statement:
    """List what lies below these prefixes. Without the permission, S3 answers 403 for an object
    that does not exist."""
    prefixes = [f"{each}*" for each in below]
    return may(sid, "s3:ListBucket", on=[bucket], when={"StringLike": {"s3:prefix": prefixes}})


def may_pass(sid: str, role_arn: str) -> Statement:
    """Pass a role to SageMaker, and to no other service."""
    to_sagemaker = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
    return may(sid, "iam:PassRole", on=[role_arn], when=to_sagemaker)


def may_grant(sid: str, key_arn: str) -> Statement:
    """Let AWS services, and nobody else, use the key for volumes: a program could give a grant to
    anybody."""
    for_a_service = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    return may(sid, "kms:CreateGrant", on=[key_arn], when=for_a_service)


@dataclass(frozen=True, kw_only=True)
class Role:
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
        size = len(json.dumps(self.policy, separators=(",", ":")))
        limits = (("the policy", size, LARGEST_POLICY), ("the name", len(self.name), LONGEST_NAME))
        return [
            f"{what} of the role {self.name} has {found:,} characters, allowed: {most:,}"
            for what, found, most in limits
            if found > most
        ]


def trust_of(service: str, account: str, source_arn: str | None = None) -> dict[str, Any]:
    """The service, acting for this account only (and for that resource, when one is given)."""
    conditions: dict[str, Any] = {"StringEquals": {"aws:SourceAccount": account}}
    if source_arn is not None:
        conditions["ArnLike"] = {"aws:SourceArn": source_arn}
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": f"{service}.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": conditions,
    }
    return {"Version": "2012-10-17", "Statement": [statement]}
