"""Starts the server, and speaks to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import boto3

PROJECT = Path(__file__).parents[2]
ACCOUNT = "123456789012"
REGION = "us-east-1"


@dataclass(frozen=True)
class AwsServer:
    """A server that runs."""

    port: int

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
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str) -> Any:
        """A boto3 client of it."""
        return _client(self.url, service)

    def reset(self) -> None:
        self._post("reset", None)

    def script(self, pipeline: str, frames: Sequence[dict[str, Any]]) -> None:
        """What executions of that pipeline do that start from now on."""
        self._post("scripts", {"pipeline": pipeline, "frames": list(frames)})

    def script_builds(self, project: str, *frames: dict[str, Any]) -> None:
        """What builds of that CodeBuild project do that start from now on."""
        self._post("build-scripts", {"project": project, "frames": list(frames)})

    def fail(self, operation: str, code: str, **how: Any) -> None:
        """Let an operation fail; see `faults.Faults.add`."""
        self._post("faults", {"operation": operation, "code": code, **how})

    def end_deployment(self, endpoint: str, how: str = "InService") -> None:
        """What becomes of the deployment that is going on: `InService`, `RolledBack`, `Failed`."""
        self._post("endpoint-ends", {"name": endpoint, "how": how})

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
def _client(url: str, service: str) -> Any:
    """Made once: a client takes longer to make than most of what it is asked."""
    return boto3.client(
        service,
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key="test",
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
