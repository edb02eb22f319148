"""How jobs find AWS here: the variables that lead to it, and the socket that they name.

The socket listens, and a thread sleeps beside it: the server's code is loaded when the first job
connects, so an execution whose jobs never speak to AWS pays nothing for it.
"""

from __future__ import annotations

import os
import secrets
import select
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compilegate.local.home.object_store import ObjectStore

# What could lead a job to an account: kept out, wherever it comes from, unless --env passes it.
_ACCOUNT_PREFIXES = (
    "AWS_ENDPOINT_URL",
    "AWS_CONTAINER_",
    "AWS_SSO_",
    "AWS_WEB_IDENTITY_",
    "AWS_ROLE_",
)
_ACCOUNT_NAMES = frozenset(
    {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_SECURITY_TOKEN",
        "AWS_PROFILE",
        "AWS_DEFAULT_PROFILE",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_CREDENTIAL_EXPIRATION",
        "AWS_EC2_METADATA_DISABLED",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    }
)
_DEFAULT_REGION = "us-east-1"
_DIRECT = "127.0.0.1"


@dataclass(frozen=True)
class JobVariables:
    """What an execution adds to the environment of each of its jobs."""

    aws: Mapping[str, str] = field(default_factory=dict)
    """The endpoint here and its key; they win over what the definition says."""
    given: Mapping[str, str] = field(default_factory=dict)
    """From --env; they win over everything, because they are passed on purpose."""

    def merged(self, base: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """A job's environment; `own` is what its request and its container's contract say."""
        harmless = {name: value for name, value in own.items() if not chooses_account(name)}
        merged = {**base, **harmless}
        for name, value in self.aws.items():
            if chooses_account(name) or name not in merged:
                merged[name] = value
        if self.aws:
            _bypass_proxies(merged)
        return {**merged, **self.given}


NO_VARIABLES = JobVariables()


def chooses_account(name: str) -> bool:
    """Whether a variable decides with whose credentials, or where, AWS is called."""
    return name in _ACCOUNT_NAMES or name.startswith(_ACCOUNT_PREFIXES)


def _bypass_proxies(variables: dict[str, str]) -> None:
    """Through a proxy this machine's own address would be the proxy's."""
    for name in ("no_proxy", "NO_PROXY"):
        hosts = variables.get(name, "")
        if _DIRECT not in hosts.split(","):
            variables[name] = f"{hosts},{_DIRECT}" if hosts else _DIRECT


@contextmanager
def aws_endpoint(
    store: ObjectStore, scratch: Path, machine: Mapping[str, str], named: str = ""
) -> Iterator[Mapping[str, str]]:
    """Answer S3 from `store` as long as the block lasts; gives the variables that lead a job there.

    `scratch` is the folder of uploads in flight, on the store's disk. `machine` is the runner's own
    environment, of which the region alone is passed on. A bucket whose name stands in the text
    `named` is made when a job first writes to it.
    """
    key = f"LOCAL{secrets.token_hex(8).upper()}"
    region = machine.get("AWS_REGION") or machine.get("AWS_DEFAULT_REGION") or _DEFAULT_REGION
    reader, writer = os.pipe()
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port = listener.getsockname()[1]
        options = {"store": store, "scratch": scratch, "key": key, "named": named}
        thread = threading.Thread(target=_serve, args=(listener, reader, options), daemon=True)
        thread.start()
        try:
            yield _endpoint_variables(f"http://127.0.0.1:{port}", key, region)
        finally:
            os.close(writer)
            thread.join()
            os.close(reader)
            shutil.rmtree(scratch, ignore_errors=True)


def _serve(listener: socket.socket, stop: int, options: Mapping[str, Any]) -> None:
    readable, _, _ = select.select([listener, stop], [], [])
    if stop in readable:
        return
    from compilegate.local.aws.server import serve  # noqa: PLC0415 - see above

    serve(listener, stop, **options)


def _endpoint_variables(url: str, key: str, region: str) -> dict[str, str]:
    """What leads boto3, the CLI and others to the endpoint at `url` and to nothing else."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": key,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
