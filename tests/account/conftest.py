"""An account with a deployed workload, and a checkout of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.account import scripted
from tests.account.deployed import Deployed, deploy
from tests.aws_server.client import PROJECT, AwsServer


@pytest.fixture
def deployed(aws: AwsServer) -> Deployed:
    """An account in which the workload `topics` is deployed and its data was prepared once."""
    account = deploy(aws)
    scripted.prepare_has_run(account)
    return account


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with one workload and its data."""
    (tmp_path / "workloads").mkdir()
    declared = (PROJECT / "tests" / "pipelines" / "topics.toml").read_text()
    (tmp_path / "workloads" / "topics.toml").write_text(declared)
    for name in ("train", "validation"):
        (tmp_path / "workloads" / f"{name}.csv").write_text("number,body,topic\n1,oil,crude\n")
    return tmp_path
