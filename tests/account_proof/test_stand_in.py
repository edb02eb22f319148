"""`make prove-aws` against the stand-in, whole and interrupted; and what docs/aws.md says of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from compilegate.account.settings import SETTINGS_FILE
from compilegate.account.settings.pins import write_pins
from compilegate.infra.project import read_project
from tests.account_proof import trial
from tests.account_proof.__main__ import STATE, main, table
from tests.account_proof.claims import CLAIMS, REMOVAL
from tests.account_proof.motion import Motion
from tests.account_proof.trial import HERE, Trial
from tests.aws_server.client import PROJECT, REGION, AwsServer, running_server

PAGE = PROJECT / "docs" / "aws.md"
NOT_PLAYED = {"answers", "isolation", "topic"}
"""moto's endpoints have no model, its alarms no history, and it simulates no policies."""


def test_the_page_has_the_table_of_the_claims() -> None:
    """UPDATE_GOLDEN=1 writes it, from the states that are kept."""
    text = PAGE.read_text(encoding="utf-8")
    begin = text.index("| no. | claim |")
    there, made = (
        text[begin : text.index("\n\n", begin)],
        table(json.loads((HERE / STATE).read_text())),
    )
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(text.replace(there, made), encoding="utf-8")
    else:
        assert there == made


def test_a_claim_comes_after_what_it_needs_and_the_removal_comes_last() -> None:
    assert all(number < claim.number for claim in CLAIMS for number in claim.needs)
    assert tuple(claim.prove for claim in CLAIMS[-2:]) == REMOVAL
    assert sum(claim.usd for claim in CLAIMS if not claim.asked) < 5


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[AwsServer]:
    """An empty account, which this process and those that it starts take for AWS."""
    with running_server() as server:
        for name in [name for name in os.environ if name.startswith(("AWS_", "CDK"))]:
            monkeypatch.delenv(name)
        for name, value in {
            **{name: v for name, v in server.environment.items() if name.startswith("AWS_")},
            "AWS_DEFAULT_REGION": REGION,
            "AWS_MAX_ATTEMPTS": "1",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_HOME": str(tmp_path / ".cdk"),
            "CDK_VALIDATION": "false",
            "COMPILEGATE_POLL_SECONDS": "0",
            "DOCKER_HOST": "tcp://127.0.0.1:9",  # nothing answers there
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        }.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def _pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in has no registry of AWS's that could be asked for digests."""
    make_folder = Trial.make_folder

    def pinned(self: Trial) -> None:
        make_folder(self)
        monkeypatch.setenv("COMPILEGATE_STAGE", "first")
        images = read_project(self.path).images.values()
        pins = {image.base_name: f"sha256:{'0' * 64}" for image in images}
        write_pins(self.path / SETTINGS_FILE, pins)

    monkeypatch.setattr(Trial, "make_folder", pinned)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("_pinned")
def test_what_the_stand_in_can_play_is_proven_and_nothing_is_left(
    aws: AwsServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(trial, "EVERY_SECONDS", 15.0)
    motion = Motion(aws, tmp_path / "functions", tmp_path / "project")
    assert main(["--yes", "--with", "network,gpu", "--folder", str(tmp_path)], motion) == 1
    states = json.loads((tmp_path / STATE).read_text(encoding="utf-8"))
    print(capsys.readouterr().out)
    proven = {number for number, found in states.items() if found["state"] == "proven"}
    assert [c.prove.__name__ for c in CLAIMS if str(c.number) not in proven] == sorted(NOT_PLAYED)
