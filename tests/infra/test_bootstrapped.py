"""`make deploy` bootstraps an account that was never bootstrapped, and no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.aws_server.client import AwsServer

REPOSITORY = Path(__file__).parents[2]
VERSION = "/cdk-bootstrap/hnb659fds/version"


def asked(aws: AwsServer, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "compilegate.infra.bootstrapped"],
        cwd=REPOSITORY,
        env={**aws.environment, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_an_account_is_bootstrapped_when_it_says_so(aws: AwsServer) -> None:
    assert asked(aws).returncode == 1
    aws.client("ssm").put_parameter(Name=VERSION, Value="30", Type="String")
    assert asked(aws).returncode == 0


@pytest.mark.slow
def test_without_credentials_nothing_is_assumed(aws: AwsServer) -> None:
    answer = asked(aws, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    assert answer.returncode == 2
    assert "Unable to locate credentials" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.slow
def test_a_missing_region_is_said_with_what_to_do(aws: AwsServer) -> None:
    answer = asked(aws, AWS_REGION="")
    assert answer.returncode == 2
    assert "no AWS region is set; set AWS_REGION, or region in infra/settings" in answer.stderr


@pytest.mark.slow
def test_a_role_that_may_not_look_deploys_without_bootstrapping(aws: AwsServer) -> None:
    aws.fail("GetParameter", "AccessDeniedException")
    assert asked(aws).returncode == 0
