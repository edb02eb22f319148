"""The claims that only a real account can prove: what their list and its table must be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compilegate.account.settings import SETTINGS_FILE, Names, read_settings
from compilegate.infra.project import read_project
from compilegate.infra.proving.claims import CLAIMS, REMOVAL, cost, markdown, proven_here
from compilegate.infra.proving.conducting import PROOFS
from compilegate.infra.proving.folder import PROJECT, SECOND, WORKLOAD, Folder
from compilegate.infra.proving.inventory import is_of
from compilegate.infra.proving.outcomes import FAILED, NOT_TRIED, PROVED, Record, table

PAGE = Path(__file__).parents[3] / "docs" / "aws.md"
MOST_USD = 5.0


def test_the_page_has_the_table_of_the_claims() -> None:
    assert markdown() in PAGE.read_text(encoding="utf-8"), (
        "docs/aws.md: put this table there:\n" + markdown()
    )


def test_every_claim_that_is_not_left_to_people_has_a_proof_and_comes_after_what_it_needs() -> None:
    keys = [claim.key for claim in CLAIMS]
    assert len(set(keys)) == len(keys)
    mine = [claim.key for claim in proven_here()]
    assert sorted([*PROOFS, REMOVAL[-1]]) == sorted(mine)
    assert tuple(mine[-2:]) == REMOVAL
    for claim in proven_here():
        assert set(claim.after) <= set(mine[: mine.index(claim.key)])


def test_all_of_it_costs_less_than_five_dollars() -> None:
    assert 0 < cost(CLAIMS) < MOST_USD


def test_what_is_deployed_to_prove_with_is_a_project_that_deploys(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "project")
    folder.make("123456789012", "us-east-1")
    for change in ({}, {"expression": "cron(30 9 * * ? *)"}, {"month_usd": 0.7}):
        folder.declare(**change)
        project = read_project(folder.path)
        assert project.settings.project == PROJECT
        assert not project.settings.storage.retain
        assert [each.workload.name for each in project.workloads] == [WORKLOAD, SECOND]
        first = project.workloads[0].workload
        assert (first.schedule is not None) == ("expression" in change)
        assert first.budget is not None
        assert first.budget.month_usd == change.get("month_usd")
    folder.forget_second()
    assert [each.workload.name for each in read_project(folder.path).workloads] == [WORKLOAD]


@pytest.mark.parametrize(
    ("name", "mine"),
    [
        ("cgproof", True),
        ("cgproof-proof", True),
        ("cgproof/training", True),
        ("/aws/lambda/cgproof-proof-releaser", True),
        ("alias/cgproof", True),
        ("arn:aws:sns:us-east-1:123456789012:cgproof-notifications", True),
        ("https://sqs.us-east-1.amazonaws.com/123456789012/cgproof-workload-proof-Letters", True),
        ("CDKToolkit-cgproof", True),
        ("CDKToolkit", False),
        ("cgproofs-models", False),
        ("my-cgproof-models", False),
        ("/aws/lambda/news-cgproof", False),
        ("cdk-hnb659fds-assets-123456789012-us-east-1", False),
    ],
)
def test_a_thing_is_the_projects_by_its_whole_name(name: str, mine: bool, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "project")
    folder.make("123456789012", "us-east-1")
    names = Names(read_settings(folder.path / SETTINGS_FILE))
    assert is_of(name, names) == mine
    assert is_of(f"cdk-{names.qualifier}-assets-123456789012-us-east-1", names)


def test_outcomes_are_whole_in_their_file_after_each(tmp_path: Path) -> None:
    record = Record(path=tmp_path / "o" / "outcomes.json", account="1", region="r", began="now")
    first, second, third, *_ = CLAIMS
    record.add(first, PROVED, "seen", 61)
    assert record.whole
    assert json.loads(record.path.read_text())["claims"][0]["outcome"] == PROVED
    record.add(second, FAILED, "the first line\nand more")
    record.add(third, NOT_TRIED, "needs images")
    kept = json.loads(record.path.read_text())["claims"]
    assert [each["outcome"] for each in kept] == [PROVED, FAILED, NOT_TRIED]
    assert [each["usd"] for each in kept] == [first.usd, second.usd, 0]
    assert not record.whole
    assert record.holds(first.key)
    assert not record.holds(second.key)
    assert table(record.outcomes).splitlines() == [
        "CLAIM       OUTCOME     MINUTES  WHAT WAS SEEN",
        "deploy      proved      1.0      seen",
        "images      not proved  0.0      the first line",
        "definition  not tried   0.0      needs images",
    ]
