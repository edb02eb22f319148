"""A server that stands in for AWS, started once; every test finds it empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.aws_server.client import AwsServer, running_server


@pytest.fixture(scope="session")
def _server() -> Iterator[AwsServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def aws(_server: AwsServer) -> AwsServer:
    _server.reset()
    return _server
