"""`make deploy` bootstraps an account that was never bootstrapped, and no other; `make bootstrap`
makes the policies that limit it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from compilegate.account.settings import Names, Settings
from tests.aws_server.client import ACCOUNT, AwsServer

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
NAMES = Names(Settings())
VERSION = f"/cdk-bootstrap/{NAMES.qualifier}/version"


def asked(aws: AwsServer, **environment: str) -> subprocess.CompletedProcess[str]:
    return _run(aws, "bootstrapped", environment)


def made(aws: AwsServer, **environment: str) -> subprocess.CompletedProcess[str]:
    return _run(aws, "bootstrap_policies", environment)


def _run(
    aws: AwsServer, module: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"compilegate.infra.{module}"],
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


@pytest.mark.slow
def test_its_policies_are_made_once_and_changed_when_they_say_something_else(
    aws: AwsServer,
) -> None:
    first, again = made(aws), made(aws)
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    arguments = first.stdout.split()
    arn = f"arn:aws:iam::{ACCOUNT}:policy/compilegate-deployment"
    assert arguments[0].startswith(f"aws://{ACCOUNT}/")
    assert arguments[arguments.index("--cloudformation-execution-policies") + 1] == arn
    assert arguments[arguments.index("--custom-permissions-boundary") + 1] == arn.split("/")[1]
    iam = aws.client("iam")
    assert len(iam.list_policy_versions(PolicyArn=arn)["Versions"]) == 1

    nothing = {"Effect": "Deny", "Action": "*", "Resource": "*"}
    other = json.dumps({"Version": "2012-10-17", "Statement": nothing})
    for _ in range(4):
        iam.create_policy_version(PolicyArn=arn, PolicyDocument=other, SetAsDefault=True)
    assert made(aws).returncode == 0
    versions = iam.list_policy_versions(PolicyArn=arn)["Versions"]
    (default,) = [version for version in versions if version["IsDefaultVersion"]]
    said = iam.get_policy_version(PolicyArn=arn, VersionId=default["VersionId"])
    assert said["PolicyVersion"]["Document"]["Statement"] != nothing


@pytest.mark.slow
def test_policies_that_cannot_be_made_are_said_to_be_that(aws: AwsServer) -> None:
    aws.fail("CreatePolicy", "AccessDenied")
    answer = made(aws)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.startswith("The policies of the bootstrap could not be made: ")
    assert "Traceback" not in answer.stderr
