"""The repository as it is cloned: its main job, its commands, each workload that it ships."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from compilegate.workload import read_workload
from tests.mission.golden import ACCOUNT, KEY, REGION
from tests.shipped.clone import ROOT, WORKLOADS, Place, clone_at
from tests.shipped.pages import blocks, follow

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.long]

ELSEWHERE = {"training-compiler", "neuron"}
"""Compilers that are in AWS's images alone."""
PAGES = ["README.md", "docs/first-workload.md", "docs/own-script.md", "docs/deploy.md"]
"""Those whose every command is run as printed, here or beside."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return clone_at(tmp_path_factory.mktemp("clone") / "compilegate")


def test_the_main_job_and_what_else_readme_starts_with(clone: Place) -> None:
    """It registers a model of news-topics, and the baseline's of digits-cnn."""
    assert follow("README.md", clone.folder, clone.run, ["Start"]) == 2
    registry = clone.folder / ".compilegate" / "registry"
    (trained,) = (registry / "digits-cnn").glob("*.json")
    metadata = json.loads(trained.read_text(encoding="utf-8"))["CustomerMetadataProperties"]
    assert metadata["arm"] == "baseline"
    assert len(list((registry / "news-topics").glob("*.json"))) == 1


def test_everything_that_make_test_runs_is_collected(clone: Place) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "tests"],
        cwd=clone.folder,
        env=dict(clone.environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_list_has_commands(page: str) -> None:
    assert [block for block in blocks(page) if block.language == "sh"]


def declared(name: str) -> Path:
    return ROOT / "workloads" / f"{name}.toml"


def elsewhere(name: str) -> list[str]:
    """The arms of a workload that this machine cannot train."""
    arms = read_workload(declared(name)).arms
    return [arm for arm, each in arms.items() if each.compiler in ELSEWHERE]


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_valid_compiles_explains_itself_and_is_advised_on(
    clone: Place, name: str
) -> None:
    assert f"workloads/{name}.toml: valid: " in clone.run(f"compilegate validate {name}")
    place = f"--account {ACCOUNT} --region {REGION} --key {KEY} --objects .compilegate/s3"
    clone.run(f"compilegate pipeline compile {name} {place} --output {name}.json")
    definition = json.loads((clone.folder / f"{name}.json").read_text(encoding="utf-8"))
    refused = len(elsewhere(name)) * len(read_workload(declared(name)).seeds)
    # With status 2 where some of it can run elsewhere only.
    refusing = "|| [ $? = 2 ]" * bool(refused)
    explained = clone.run(f"compilegate pipeline explain {name}.json {refusing}")
    for step in definition["Steps"]:
        assert step["Name"] in explained
    assert explained.count("    refused: ") >= refused
    summary = re.compile(r"\d+ steps: \d+ can run here" + f", {refused} refused" * bool(refused))
    assert summary.fullmatch(explained.splitlines()[-1])
    assert json.loads(clone.run(f"compilegate advise {name} --json"))["workload"] == name


@pytest.mark.parametrize("name", list(filter(elsewhere, WORKLOADS)))
def test_run_names_the_arms_that_this_machine_cannot_train(clone: Place, name: str) -> None:
    done = subprocess.run(
        ["compilegate", "run", name],
        cwd=clone.folder,
        env=dict(clone.environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    for arm in elsewhere(name):
        assert f"arms.{arm}." in done.stderr
    (advice,) = [line for line in done.stderr.splitlines() if "--arms" in line]
    assert not set(advice.rpartition("--arms ")[2].split(",")) & set(elsewhere(name))
