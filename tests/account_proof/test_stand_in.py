"""`make prove-aws` against the stand-in, whole and interrupted; and what docs/aws.md says of it."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from compilegate.account.session import open_session
from compilegate.account.settings import SETTINGS_FILE
from compilegate.account.settings.pins import write_pins
from compilegate.infra.project import read_project
from tests.account_proof.__main__ import STATE, main, table
from tests.account_proof.claims import CLAIMS, REMOVAL
from tests.account_proof.motion import BUCKET, Motion
from tests.account_proof.trial import HERE, Trial
from tests.aws_server.client import PROJECT, AwsServer, running_server
from tests.infra.deployment.deployed import ENVIRONMENT

PAGE = PROJECT / "docs" / "aws.md"
NOT_PLAYED = ["isolation", "topic", "answers"]
"""moto simulates no policies, its alarms have no history, and its endpoints no model."""


def test_the_page_has_the_table_of_the_claims() -> None:
    """UPDATE_GOLDEN=1 writes it, from the states that are kept."""
    text, states = PAGE.read_text(encoding="utf-8"), json.loads((HERE / STATE).read_text())
    begin = text.index("| no. | claim |")
    there, made = text[begin : text.index("\n\n", begin)], table(states)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(text.replace(there, made), encoding="utf-8")
    else:
        assert there == made


def test_a_claim_comes_after_what_it_needs_and_the_removal_comes_last() -> None:
    names = [claim.proof for claim in CLAIMS]
    assert all({*claim.needs} <= {*names[: claim.number - 1]} for claim in CLAIMS)
    assert tuple(name for name in names if name)[-2:] == REMOVAL
    assert sum(claim.usd for claim in CLAIMS if not claim.option) < 8


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[AwsServer]:
    """An empty account, which this process and those that it starts take for AWS."""
    make_folder = Trial.make_folder

    def pinned(self: Trial) -> None:
        """With digests of images: the stand-in has no registry of AWS's that could be asked."""
        make_folder(self)
        with monkeypatch.context() as context:
            context.setenv("COMPILEGATE_STAGE", "first")
            images = read_project(self.path).images.values()
        pins = {image.base_name: f"sha256:{'0' * 64}" for image in images}
        write_pins(self.path / SETTINGS_FILE, pins)

    monkeypatch.setattr(Trial, "make_folder", pinned)
    handler = signal.getsignal(signal.SIGTERM)
    with running_server() as server:
        for name in [name for name in os.environ if name.startswith(("AWS_", "CDK"))]:
            monkeypatch.delenv(name)
        for name, value in {
            **{name: v for name, v in server.environment.items() if name.startswith("AWS_")},
            **ENVIRONMENT,
            "AWS_MAX_ATTEMPTS": "1",
            "CDK_HOME": str(tmp_path / ".cdk"),
        }.items():
            monkeypatch.setenv(name, value)
        yield server
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.slow
@pytest.mark.long
def test_what_the_stand_in_can_play_is_proven_and_nothing_is_left(
    aws: AwsServer, tmp_path: Path
) -> None:
    motion = Motion(aws, tmp_path / "functions", tmp_path / "project")
    assert main(["--yes", "--with", "network,gpu", "--folder", str(tmp_path)], motion) == 1
    states = json.loads((tmp_path / STATE).read_text(encoding="utf-8"))
    proven = [number for number, found in states.items() if found["state"] == "proven"]
    others = [each.proof for each in CLAIMS if each.proof and str(each.number) not in proven]
    assert others == NOT_PLAYED, states


@pytest.mark.slow
@pytest.mark.long
def test_a_trial_that_is_ended_removes_what_it_made_and_nothing_else(
    aws: AwsServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    s3, folder = aws.client("s3"), ["--folder", str(tmp_path)]
    s3.create_bucket(Bucket="cgproofs")
    assert main(folder) == 2, "nobody can be asked here"
    assert f"{sum(claim.usd for claim in CLAIMS if not claim.option):.2f} USD" in (
        capsys.readouterr().out
    )
    s3.create_bucket(Bucket=BUCKET)
    assert main(["--yes", *folder]) == 2, "something is there"
    assert BUCKET in capsys.readouterr().err
    s3.delete_bucket(Bucket=BUCKET)

    def end() -> None:
        """As soon as the first stack is begun."""
        found = aws.client("cloudformation").describe_stacks
        while "cgproof-foundation" not in [each["StackName"] for each in found()["Stacks"]]:
            threading.Event().wait(0.2)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, daemon=True).start()
    assert main(["--yes", *folder], lambda _: None) == 1
    assert "interrupted" in capsys.readouterr().out
    assert Trial(tmp_path, open_session(None), frozenset()).things() == []
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["cgproofs"]
