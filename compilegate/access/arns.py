"""ARNs of one account and region. Pure: each part may be a CloudFormation token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Somewhere(Protocol):
    """What knows its partition, region and account, as a stack of the CDK does."""

    @property
    def partition(self) -> str: ...

    @property
    def region(self) -> str: ...

    @property
    def account(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Arns:
    """Makes ARNs as text, so that a statement reads like the policy it becomes."""

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
        """A managed policy of the account's own."""
        return f"arn:{self.partition}:iam::{self.account}:policy/{name}"
