"""The way into an account: clients with time limits that try again when AWS is busy, and the
outputs of the deployed stacks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import metadata
from typing import Any

import boto3
import botocore.session
from botocore.config import Config

from compilegate.account.errors import (
    SERVER_FAULTS,
    AwsError,
    NotDeployedError,
    WebPageError,
    absent_is,
    aws_errors,
    configuration_errors,
    no_region,
)

CONNECT_SECONDS = 10
READ_SECONDS = 60
ATTEMPTS = 10
"""How often one request is tried: over about 90 seconds when AWS keeps asking to slow down."""


@dataclass(frozen=True)
class AwsSession:
    session: boto3.Session
    region: str
    config: Config
    """Time limits and retries of every client."""

    def in_region(self, region: str) -> AwsSession:
        return replace(self, region=region)

    def client(self, service: str) -> Any:
        with configuration_errors(f"speak to {service}"):
            return _client(self.session, service, self.region, self.config)

    def listed(
        self, service: str, operation: str, member: str, **request: Any
    ) -> Iterator[dict[str, Any]]:
        """All that a listing finds, page after page; `member` holds it in each answer."""
        for page in self.client(service).get_paginator(operation).paginate(**request):
            yield from page.get(member, [])

    @cached_property
    def account(self) -> str:
        """The twelve digits of the account. Raises AwsError."""
        with aws_errors("find out which AWS account this is"):
            return str(self.client("sts").get_caller_identity()["Account"])

    @property
    def partition(self) -> str:
        return str(self.session.get_partition_for_region(self.region))


def open_session(region: str | None, account: str | None = None) -> AwsSession:
    """A session with the credentials of the environment.

    `region` is what the settings say, else it is that of the environment. With `account`, the
    credentials have to be of that account. Raises AwsError.
    """
    with configuration_errors("open a session with AWS"):
        core = botocore.session.get_session()
        core.register("before-parse", refuse_web_pages)
        session = boto3.Session(botocore_session=core)
        config = _config(core)
    # boto3 itself reads only AWS_DEFAULT_REGION; all other SDKs and the actions for CI set this.
    chosen = region or os.environ.get("AWS_REGION") or session.region_name
    if not chosen:
        raise no_region()
    opened = AwsSession(session, chosen, config)
    if account is not None and opened.account != account:
        raise AwsError(
            f"the AWS credentials belong to account {opened.account}, but infra/settings.toml "
            f"allows only {account}; use its credentials, or change account there"
        )
    return opened


@cache
def _client(session: boto3.Session, service: str, region: str, config: Config) -> Any:
    return session.client(service, region_name=region, config=config)


def _config(core: botocore.session.Session) -> Config:
    """What the user has set for retries counts; else patience, because CI waits for this."""
    profile = core.get_scoped_config()
    given = {"retry_mode", "max_attempts"} & profile.keys()
    given |= {"AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"} & os.environ.keys()
    installed = {each.version for each in metadata.distributions(name="compilegate")}
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        user_agent_extra=f"compilegate/{next(iter(installed), 'unknown')}",
        **({} if given else {"retries": {"mode": "adaptive", "total_max_attempts": ATTEMPTS}}),
    )


_REQUEST_IDS = {"x-amzn-requestid", "x-amzn-request-id", "x-amz-request-id"}


def refuse_web_pages(response_dict: Mapping[str, Any], **_event: Any) -> None:
    """Handles botocore's `before-parse`: a web page is not an answer from AWS. Raises WebPageError.

    boto3 reads a page as an answer without members, or as a refusal, and a page in answer to an
    upload as a success.
    A page that lies in S3 comes with the identifier that AWS gives each request.
    """
    headers = {name.lower(): value for name, value in response_dict["headers"].items()}
    status = int(response_dict["status_code"])
    page = headers.get("content-type", "").startswith("text/html")
    if page and status < SERVER_FAULTS and not _REQUEST_IDS & headers.keys():
        raise WebPageError(status=status)


@dataclass(frozen=True)
class StackOutputs:
    stack: str
    values: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        if name not in self.values:
            raise NotDeployedError(
                f"the stack {self.stack} has no output {name}: its deployment failed, or is of "
                "another version of this project; deploy it with: make deploy"
            )
        return self.values[name]


def read_outputs(session: AwsSession, stack: str) -> StackOutputs:
    """The outputs of a deployed stack. Raises NotDeployedError when there is none, AwsError."""
    missing = NotDeployedError(
        f"there is no stack {stack} in account {session.account}, {session.region}; "
        "deploy it with: make deploy"
    )
    with aws_errors(f"read the stack {stack}"), absent_is(missing):
        client = session.client("cloudformation")
        (described,) = client.describe_stacks(StackName=stack)["Stacks"]
    outputs = described.get("Outputs", [])
    return StackOutputs(stack, {each["OutputKey"]: each["OutputValue"] for each in outputs})
