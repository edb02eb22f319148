"""The stages of one project: each is the whole file with changes, and the next one's models come
from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.account.settings import (
    STAGE_VARIABLE,
    Names,
    SettingsError,
    read_settings,
    settings_of,
)

FILE = Path("settings.toml")
DEV, PROD = "111111111111", "222222222222"
DECLARED: dict[str, Any] = {
    "project": "news",
    "tags": {"owner": "ml"},
    "storage": {"log_days": 30},
    "stages": {
        "dev": {"account": DEV, "region": "us-east-1"},
        "prod": {
            "account": PROD,
            "region": "eu-west-1",
            "from": "dev",
            "tags": {"tier": "1"},
            "storage": {"execution_days": 30},
            "approval": {"trusted": [f"arn:aws:iam::{PROD}:role/owners"]},
        },
    },
}


def changed(**stages: dict[str, Any]) -> dict[str, Any]:
    there = DECLARED["stages"]
    return {
        **DECLARED,
        "stages": {**there, **{k: {**there.get(k, {}), **v} for k, v in stages.items()}},
    }


def test_a_stage_is_the_file_with_its_own_keys_in_front() -> None:
    prod = settings_of(FILE, DECLARED, "prod")
    assert (prod.account, prod.region, prod.project) == (PROD, "eu-west-1", "news")
    assert prod.tags == {"owner": "ml", "tier": "1"}
    assert (prod.storage.log_days, prod.storage.execution_days) == (30, 30)
    assert prod.approval.trusted == [f"arn:aws:iam::{PROD}:role/owners"]
    dev = settings_of(FILE, DECLARED, "dev")
    assert (dev.tags, dev.storage.execution_days, dev.approval.trusted) == (
        {"owner": "ml"},
        365,
        [],
    )


def test_models_come_from_the_stage_before_which_lets_them_be_read() -> None:
    dev, prod = (settings_of(FILE, DECLARED, stage) for stage in ("dev", "prod"))
    assert prod.source is not None
    assert (prod.source.account, prod.source.region, prod.source.project) == (
        DEV,
        "us-east-1",
        "news",
    )
    assert Names(prod).source_bucket == Names(dev).bucket(DEV, "us-east-1")
    assert dev.readers == [f"arn:*:iam::{PROD}:role/news-ci-deploy"]
    assert Names(prod).ci_deploy_role == "news-ci-deploy"
    assert (dev.source, prod.readers) == (None, [])
    for key in ("names", "storage"):
        named = changed(dev={key: {"bucket": "our-models"}})
        assert Names(settings_of(FILE, named, "prod")).source_bucket == "our-models"
    under = changed(prod={"names": {"path": "/teams/news/"}})
    assert settings_of(FILE, under, "dev").readers == [
        f"arn:*:iam::{PROD}:role/teams/news/news-ci-deploy"
    ]


def test_who_names_no_stage_gets_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(
        f'[stages.dev]\naccount = "{DEV}"\nregion = "us-east-1"\n'
        f'[stages.prod]\naccount = "{PROD}"\nregion = "us-east-1"\nfrom = "dev"\n'
    )
    monkeypatch.delenv(STAGE_VARIABLE, raising=False)
    assert read_settings(path).account == DEV
    monkeypatch.setenv(STAGE_VARIABLE, "prod")
    assert read_settings(path).account == PROD


@pytest.mark.parametrize(
    ("raw", "stage", "sentence"),
    [
        (DECLARED, "production", "there is no stage 'production', allowed: dev, prod (COMPIL"),
        ({"project": "news"}, "prod", "there is no stage 'prod', allowed: none"),
        ({"stages": ["dev"]}, None, "stages: found no tables, allowed: a table [stages.NAME] each"),
        (changed(prod={"from": "test"}), "dev", "stages.prod.from: found 'test', allowed: another"),
        (
            changed(dev={"from": "dev"}),
            "dev",
            "stages.dev.from: found 'dev', allowed: another",
        ),
        (
            changed(prod={"account": DEV}),
            "dev",
            "stages.prod: goes to the same account and project as dev, expected stages",
        ),
        (changed(test={"region": "us-east-1"}), "dev", "stages.test.account is missing, and must"),
        (
            changed(Prod={"account": "333333333333", "region": "eu-west-1"}),
            "dev",
            "stages: found 'Prod', ",
        ),
        (
            changed(prod={"stages": {}}),
            "dev",
            "stages.prod.stages: found stages in a stage,",
        ),
    ],
    ids=[
        "unknown stage",
        "no stages",
        "no tables",
        "unknown source",
        "its own source",
        "same place",
        "no account",
        "name",
        "nested",
    ],
)
def test_an_invalid_stage_is_refused_whichever_is_chosen(
    raw: dict[str, Any], stage: str | None, sentence: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        settings_of(FILE, raw, stage)
    assert refused.value.problems[0].startswith(f"{FILE}: {sentence}")


def test_a_wrong_key_of_a_stage_names_the_stage() -> None:
    with pytest.raises(SettingsError) as refused:
        settings_of(FILE, changed(prod={"storage": {"log_day": 30}}), "dev")
    (sentence,) = refused.value.problems
    assert sentence.startswith("settings.toml, stage prod: storage.log_day")


@given(days=st.integers(1, 3650), owner=st.text("abc", min_size=1, max_size=9))
def test_keys_of_one_stage_change_no_other(days: int, owner: str) -> None:
    other = changed(prod={"storage": {"execution_days": days}, "tags": {"owner": owner}})
    assert settings_of(FILE, other, "dev") == settings_of(FILE, DECLARED, "dev")
