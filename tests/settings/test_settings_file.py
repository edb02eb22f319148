"""What `infra/settings.toml` may say, and the names that are made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.account.settings import Names, Settings, SettingsError, read_settings


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path


def problem(tmp_path: Path, text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        read_settings(written(tmp_path, text))
    (sentence,) = caught.value.problems
    return sentence.removeprefix(f"{tmp_path / 'settings.toml'}: ")


def test_without_a_file_the_settings_are_the_defaults(tmp_path: Path) -> None:
    assert read_settings(tmp_path / "settings.toml") == Settings()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            'projekt = "x"',
            "projekt is not a known key (did you mean 'project'?), expected account, "
            "approval, bootstrap, budget, dashboard, github, images, names, network, "
            "notifications, project, readers, region, roles, scheduling, source, stages, storage, "
            "tags, workloads",
        ),
        (
            'account = "12"',
            "account is '12', expected twelve digits",
        ),
        (
            '[network]\nsubnets = ["subnet-1"]',
            "network: subnets is given and security_groups is not, allowed: both or neither",
        ),
        (
            '[network]\ncreate = true\nsubnets = ["subnet-1"]\nsecurity_groups = ["sg-1"]',
            "network: create is true and subnets is given, allowed: one of the two, a VPC that is "
            "made or one that is there",
        ),
        (
            '[network]\nzones = ["us-east-1a", "us-east-1b"]',
            "network: zones is given and create is not true, allowed: with create = true",
        ),
        (
            '[network]\ncreate = true\nzones = ["us-east-1a"]',
            "network: zones: found us-east-1a, allowed: none, or two to 6 different ones",
        ),
        (
            'region = "eu-west-1"\n[network]\ncreate = true\nzones = ["us-east-1a", "us-east-1b"]',
            "network.zones: found 'us-east-1a', allowed: zones of the region eu-west-1",
        ),
        (
            '[network]\ncreate = true\ncidr = "8.8.0.0/16"',
            "network.cidr: found '8.8.0.0/16', allowed: a private block of addresses from /16 to "
            "/22, as in 10.64.0.0/16",
        ),
        (
            '[network]\ncreate = true\ncidr = "10.0.0.1/16"',
            "network.cidr: found '10.0.0.1/16', allowed: a private block of addresses from /16 to "
            "/22, as in 10.64.0.0/16",
        ),
        (
            "[storage]\nlog_days = 2",
            "storage.log_days is 2, expected 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, "
            "400, 545, 731, 1096, 1827 or 3653",
        ),
        (
            'project = "our-models"',
            "project is 'our-models', expected small letters and digits, a letter first",
        ),
        ("[github]", "github.repository is missing"),
        (
            '[names]\nkey_alias = "alias/aws/s3"',
            "names.key_alias: found 'alias/aws/s3', allowed: one that does not begin with "
            "alias/aws/",
        ),
        (
            '[tags]\n"compilegate:project" = "x"',
            "tags.compilegate:project: found 'compilegate:project', allowed: one that does not "
            "begin with compilegate:",
        ),
    ],
)
def test_an_invalid_file_is_refused_in_one_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    assert problem(tmp_path, text) == sentence


def test_text_that_is_not_toml_is_refused(tmp_path: Path) -> None:
    assert problem(tmp_path, "project = ").startswith("not valid TOML: ")


def test_a_name_that_is_set_stands_in_place_of_the_projects(tmp_path: Path) -> None:
    settings = read_settings(
        written(tmp_path, '[names]\nbucket = "our-models"\nrepository_prefix = "ml/train"')
    )

    assert Names(settings).bucket("123456789012", "us-east-1") == "our-models"
    assert Names(settings).repository("gate") == "ml/train/gate"
