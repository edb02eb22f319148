"""A deployment: bootstrapped, deployed once, read by the tests, then changed and destroyed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.aws_server.client import running_server
from tests.infra.deployment.cdk_cli import Cdk
from tests.infra.deployment.deployed import Deployment
from tests.infra.deployment.project import Project


@pytest.fixture(scope="package")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with running_server() as aws:
        project = Project.make(tmp_path_factory.mktemp("project"))
        cdk = Cdk(project.path, aws)
        cdk.bootstrap()
        cdk.synth()
        cdk.deploy()
        yield Deployment(project, aws, cdk)
