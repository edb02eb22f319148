"""`make prove-aws` against the stand-in: what that can play is proven, and nothing is left."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from compilegate.account.session import open_session
from compilegate.account.settings import SETTINGS_FILE
from compilegate.account.settings.pins import write_pins
from compilegate.infra.project import read_project
from compilegate.infra.proving.__main__ import HELD, REFUSED, main, prepare
from compilegate.infra.proving.account import Proving
from compilegate.infra.proving.claims import CLAIMS, cost, proven_here
from compilegate.infra.proving.commands import NotProvedError
from compilegate.infra.proving.conducting import Conductor
from compilegate.infra.proving.inventory import things_of
from compilegate.infra.proving.outcomes import FAILED, NOT_TRIED, PROVED, Record
from tests.aws_server.client import REGION, AwsServer, running_server
from tests.infra.proving.motion import BUCKET, PIPELINE, Motion

pytestmark = [pytest.mark.slow, pytest.mark.long]

SCRIPTED = {"jobs", "cache"}
"""Their jobs do not run: the stand-in goes through a script, and what follows can be tried."""
PLAYED = [
    claim
    for claim in CLAIMS
    if not claim.by_hand and (not claim.not_played or claim.key in SCRIPTED)
]


@pytest.fixture(scope="module")
def _server() -> Iterator[AwsServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def aws(_server: AwsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AwsServer:
    """An empty account, which this process and those that it starts take for AWS."""
    _server.reset()
    for name in list(os.environ):
        if name.startswith(("AWS_", "CDK")):
            monkeypatch.delenv(name)
    changed = {
        **{name: each for name, each in _server.environment.items() if name.startswith("AWS_")},
        "AWS_DEFAULT_REGION": REGION,
        "AWS_MAX_ATTEMPTS": "1",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_HOME": str(tmp_path / ".cdk"),
        "CDK_VALIDATION": "false",
        "COMPILEGATE_POLL_SECONDS": "0",
        "DOCKER_HOST": "tcp://127.0.0.1:9",  # nothing answers there
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
    }
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    return _server


def conductor(aws: AwsServer, folder: Path) -> tuple[Conductor, list[str]]:
    """With a clock that does not tick: while a proof waits, the account goes on."""
    session = open_session(REGION)
    proving = prepare(session, folder)
    # The stand-in has no registry of AWS's that could be asked for digests.
    images = read_project(proving.folder.path).images.values()
    pins = {image.base_name: f"sha256:{'0' * 64}" for image in images}
    write_pins(proving.folder.path / SETTINGS_FILE, pins)
    motion = Motion(aws, folder / "functions", folder / "project")
    motion.begin()
    said: list[str] = []
    record = Record(
        path=folder / "outcomes.json", account=session.account, region=REGION, began="now"
    )
    patient = replace(proving, pause=motion.pass_time)
    return Conductor(patient, record, said.append), said


def seen(_: Proving) -> str:
    """In place of a proof that is not what a test is about."""
    return "seen"


def test_what_the_stand_in_can_play_is_proven_and_nothing_is_left(
    aws: AwsServer, tmp_path: Path
) -> None:
    trial, said = conductor(aws, tmp_path)
    assert trial.conduct(PLAYED), "\n".join(said)
    assert [outcome.key for outcome in trial.record.outcomes] == [claim.key for claim in PLAYED]


def test_what_an_interrupted_trial_made_is_removed(aws: AwsServer, tmp_path: Path) -> None:
    """Somebody presses Ctrl-C when there is a bucket with an object, and a model."""

    def begun(proving: Proving) -> str:
        for number in range(2):
            if not number:
                proving.client("s3").create_bucket(Bucket=BUCKET)
                proving.client("s3").put_bucket_versioning(
                    Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"}
                )
            proving.client("s3").put_object(Bucket=BUCKET, Key="models/model", Body=b"m")
        proving.client("sagemaker").create_model(
            ModelName=f"{PIPELINE}--1", ExecutionRoleArn="arn:aws:iam::123456789012:role/serving"
        )
        proving.client("logs").create_log_group(logGroupName=f"/aws/lambda/{PIPELINE}-notifier")
        raise KeyboardInterrupt

    trial, said = conductor(aws, tmp_path)
    foreign = aws.client("logs").create_log_group(logGroupName="/aws/lambda/cgproofs")
    assert foreign["ResponseMetadata"]["HTTPStatusCode"] == 200
    trial.proofs = {**trial.proofs, "deploy": begun, "destroy": seen}
    assert not trial.conduct(PLAYED), "it was not whole"
    came = {outcome.key: outcome.outcome for outcome in trial.record.outcomes}
    assert came.pop("deploy") == FAILED
    assert came.pop("destroy") == PROVED, "\n".join(said)
    assert came.pop("nothing-left") == PROVED, "\n".join(said)
    assert set(came.values()) == {NOT_TRIED}
    assert things_of(trial.proving.session, trial.proving.names) == []
    groups = aws.client("logs").describe_log_groups()["logGroups"]
    assert [group["logGroupName"] for group in groups] == ["/aws/lambda/cgproofs"]


def test_a_failure_ends_what_needs_it_and_nothing_else(aws: AwsServer, tmp_path: Path) -> None:
    def refused(_: Proving) -> str:
        raise NotProvedError("AccessDenied: iam:CreateRole")

    def broken(_: Proving) -> str:
        raise ZeroDivisionError("a bug")

    trial, _ = conductor(aws, tmp_path)
    trial.proofs = dict.fromkeys(trial.proofs, seen) | {"images": refused, "overlap": broken}
    assert not trial.conduct()
    came = {outcome.key: outcome.outcome for outcome in trial.record.outcomes}
    assert {key for key, outcome in came.items() if outcome == FAILED} == {"images", "overlap"}
    unmet = {"jobs", "cache", "package", "approval", "answers", "rejection", "rollback", "month"}
    assert {key for key, outcome in came.items() if outcome == NOT_TRIED} == unmet
    assert came["delivery"] == came["destroy"] == came["nothing-left"] == PROVED


def test_an_account_that_is_not_empty_is_refused_and_cleaned_when_asked(
    aws: AwsServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ["--folder", str(tmp_path)]
    assert main(folder) == REFUSED
    told = capsys.readouterr()
    assert "found no terminal to ask at, allowed: make prove-aws FLAGS=--yes" in told.err
    assert f"Together about {cost(proven_here()):.2f} USD" in told.out
    aws.client("s3").create_bucket(Bucket=BUCKET)
    assert main(["--yes", *folder]) == REFUSED
    told = capsys.readouterr().err
    assert f"has things of cgproof already: bucket {BUCKET}, allowed: none" in told
    assert main(["--yes", "--clean", *folder]) == HELD
    assert aws.client("s3").list_buckets()["Buckets"] == []
