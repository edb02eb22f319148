"""AWS for a program that makes a definition: moto's server, and nothing else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

import boto3

BUCKET = "sagemaker-us-east-1-123456789012"
_CREDENTIALS = {
    "aws_access_key_id": "test",
    "aws_secret_access_key": "test",
    "region_name": "us-east-1",
}


class StandIn:
    """The server, which starts when it is first asked for and ends with the context."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "moto.log"
        self._server: subprocess.Popen[bytes] | None = None
        self._endpoint = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait()

    def fresh(self) -> str:
        """The address of a server that holds nothing."""
        if self._server is None:
            self._server = self._start()
        else:
            connection = HTTPConnection(self._endpoint.removeprefix("http://"), timeout=60)
            connection.request("POST", "/moto-api/reset")
            connection.getresponse().read()
            connection.close()
        return self._endpoint

    def _start(self) -> subprocess.Popen[bytes]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._endpoint = f"http://127.0.0.1:{port}"
        program = "from moto.server import main; main()"
        with self._log.open("w") as log:
            server = subprocess.Popen(
                [sys.executable, "-c", program, "-p", str(port)],
                env={**os.environ, "MOTO_IAM_LOAD_MANAGED_POLICIES": "true"},
                stdout=log,
                stderr=log,
            )
        while server.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
            except OSError:
                time.sleep(0.2)
            else:
                return server
        raise SystemExit(f"moto's server has not started: {self._log}")


def s3_client(endpoint: str) -> Any:
    """S3 of that server."""
    return boto3.client("s3", endpoint_url=endpoint, **_CREDENTIALS)


def aws_variables(endpoint: str) -> dict[str, str]:
    """What a stranger's program may know: no key of this machine, no AWS but the server."""
    return {
        **{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "SAGEMAKER_VALIDATE_ROLE": "false",
        "MPLBACKEND": "agg",
        # Functions sent as steps need an image that AWS has for other versions of Python only.
        "SAGEMAKER_INTERNAL_IMAGE_URI": "123456789012.dkr.ecr.us-east-1.amazonaws.com/python:3",
    }


def put(client: Any, uri: str, content: bytes) -> None:
    """Put an object, and make its bucket."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    client.create_bucket(Bucket=bucket)
    if key:
        client.put_object(Bucket=bucket, Key=key, Body=content)


def keep_objects(client: Any, target: Path) -> None:
    """Every object, as files of a home."""
    for bucket in client.list_buckets()["Buckets"]:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket["Name"])
        for item in (item for page in pages for item in page.get("Contents", [])):
            if item["Key"].endswith("/"):
                continue
            file = target / bucket["Name"] / item["Key"]
            file.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(bucket["Name"], item["Key"], str(file))
