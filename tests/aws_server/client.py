"""Start the server and talk to it; the fixture `aws` is a server that every test finds empty."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest

from compilegate.catalog.images import ecr_repository

PROJECT = Path(__file__).parents[2]
ACCOUNT = "123456789012"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
REGION = "us-east-1"


@dataclass(frozen=True)
class AwsServer:
    """A server that runs."""

    port: int
    account: str = ACCOUNT
    """Whose credentials its clients have."""
    keys: tuple[str, str, str] = ("AKIAIOSFODNN7EXAMPLE", "test", "")
    """Access key, secret, and token."""

    @property
    def url(self) -> str:
        # By name: with an address, moto takes the host for a bucket's in some URLs.
        return f"http://localhost:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process speak to it, and to nothing else of AWS."""
        foreign = {name for name in os.environ if name.startswith("AWS_")}
        return {
            **{name: value for name, value in os.environ.items() if name not in foreign},
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": self.keys[0],
            "AWS_SECRET_ACCESS_KEY": self.keys[1],
            **({"AWS_SESSION_TOKEN": self.keys[2]} if self.keys[2] else {}),
            "AWS_REGION": REGION,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str) -> Any:
        """A boto3 client of it."""
        return _client(self.url, service, self.keys)

    def in_account(self, account: str, role: str = "people") -> AwsServer:
        """The same server, for somebody who has assumed a role of another account."""
        assumed = self.client("sts").assume_role(
            RoleArn=f"arn:aws:iam::{account}:role/{role}", RoleSessionName="test"
        )["Credentials"]
        keys = (assumed["AccessKeyId"], assumed["SecretAccessKey"], assumed["SessionToken"])
        return replace(self, account=account, keys=keys)

    def reset(self) -> None:
        self._post("reset", None)

    def script(self, pipeline: str, frames: Sequence[dict[str, Any]]) -> None:
        """What executions of that pipeline do that start from now on."""
        given = {"pipeline": pipeline, "frames": list(frames), "account": self.account}
        self._post("scripts", given)

    def script_builds(self, repository: str, *frames: dict[str, Any]) -> None:
        """What builds of images of that repository do that start from now on."""
        self._post("build-scripts", {"repository": repository, "frames": list(frames)})

    def fail(self, operation: str, code: str, **how: Any) -> None:
        """Let an operation fail; see `application.Fault`."""
        self._post("faults", {"operation": operation, "code": code, **how})

    def end_update(self, stack: str, how: str = "UPDATE_COMPLETE", reason: str = "") -> None:
        """End the update in progress; see `repairs.end_update`."""
        given = {"name": stack, "how": how, "reason": reason, "account": self.account}
        self._post("stack-ends", given)

    def push_images(self, uris: Iterable[str]) -> None:
        """Put images of AWS into this account: moto looks for them there alone."""
        ecr = self.client("ecr")
        existing = {each["repositoryName"] for each in ecr.describe_repositories()["repositories"]}
        for uri in uris:
            repository = ecr_repository(uri)
            if repository is None:
                continue
            if repository.name not in existing:
                ecr.create_repository(repositoryName=repository.name)
                existing.add(repository.name)
            manifest = json.dumps({"mediaType": MANIFEST, "content": uri})
            tag = uri.rpartition(":")[2]
            ecr.put_image(repositoryName=repository.name, imageManifest=manifest, imageTag=tag)

    def set_quotas(self, values: dict[str, float]) -> None:
        self._post("quotas", values)

    def calls(self, operation: str) -> list[dict[str, Any]]:
        """The requests of one operation so far, oldest first."""
        with urllib.request.urlopen(f"{self.url}/stand-in/calls") as answer:  # noqa: S310
            calls = json.load(answer)
        return [call["request"] for call in calls if call["operation"] == operation]

    def _post(self, what: str, document: Any) -> None:
        request = urllib.request.Request(  # noqa: S310  a server of this machine
            f"{self.url}/stand-in/{what}", data=json.dumps(document).encode(), method="POST"
        )
        urllib.request.urlopen(request).close()  # noqa: S310


@cache
def _client(url: str, service: str, keys: tuple[str, str, str]) -> Any:
    """A client, created once: creating one takes longer than most of its requests."""
    return boto3.client(
        service,
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=keys[0],
        aws_secret_access_key=keys[1],
        aws_session_token=keys[2] or None,
    )


@contextmanager
def running_server() -> Iterator[AwsServer]:
    """The server as a process of its own, for as long as the context lasts."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.aws_server"], cwd=PROJECT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.strip().isdecimal(), "the AWS stand-in did not start"
        yield AwsServer(int(line))
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def _server() -> Iterator[AwsServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def aws(_server: AwsServer) -> AwsServer:
    _server.reset()
    return _server
