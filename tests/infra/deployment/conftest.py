"""A deployment: bootstrapped, deployed once, read by the tests, then changed and destroyed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.aws_server.client import running_server
from tests.infra.deployment.deployed import Deployment


@pytest.fixture(scope="package")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with running_server() as aws:
        made = Deployment.make(tmp_path_factory.mktemp("project"), aws)
        made.bootstrap()
        made.synth()
        made.deploy()
        yield made
