"""The app as the CDK CLI runs it: a process, and sentences for what is wrong with its input."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from compilegate.infra.definition import incomplete_definition
from compilegate.infra.project import read_project
from compilegate.workload import InfeasibleError
from tests.workload.settled import workload_with

REPOSITORY = Path(__file__).parents[2]
HERE = Path(__file__).parent


def checkout(folder: Path, settings: str) -> Path:
    """A project with these settings and the workload of the tests."""
    shutil.copytree(HERE / "project", folder, dirs_exist_ok=True)
    (folder / "infra").mkdir(exist_ok=True)
    (folder / "infra" / "settings.toml").write_text(settings)
    return folder


def synth(folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CDK")}
    return subprocess.run(
        [sys.executable, "-m", "compilegate.infra.app"],
        cwd=folder,
        env=kept,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ('projekt = "x"', "projekt"),
        ("", "infra/settings.toml: region: found none"),
        ('region = "xx-east-1"', "AWS has no image pytorch 2.13 (gpu) in xx-east-1"),
    ],
    ids=["key", "region", "region-without-images"],
)
def test_bad_input_is_told_in_a_sentence(tmp_path: Path, settings: str, sentence: str) -> None:
    run = synth(checkout(tmp_path, settings))
    assert run.returncode == 2
    assert sentence in run.stderr
    assert "Traceback" not in run.stderr


def test_an_arm_that_its_image_cannot_train_is_told_with_the_workload_s_file() -> None:
    project = read_project(HERE / "project")
    declared = next(one for one in project.workloads if one.workload.name == "topics")
    workload = workload_with(declared.path, arms__baseline={"instance_type": "ml.p3.2xlarge"})
    with pytest.raises(InfeasibleError) as caught:
        incomplete_definition(project, replace(declared, workload=workload), "us-east-1")
    assert str(caught.value).startswith(
        f"{declared.path}: arms.baseline.instance_type: AWS's image of PyTorch 2.13 has no kernels"
    )


@pytest.mark.slow
def test_two_workloads_cannot_share_a_model_package_group(tmp_path: Path) -> None:
    folder = checkout(tmp_path, 'region = "us-east-1"')
    topics = (folder / "workloads" / "topics.toml").read_text()
    other = topics.replace('name = "topics"', 'name = "other"') + '\n[registry]\ngroup = "topics"\n'
    (folder / "workloads" / "other.toml").write_text(other)
    run = synth(folder)
    assert run.returncode == 2
    assert "registry.group: found 'topics', which other already uses" in run.stderr


@pytest.mark.slow
def test_names_that_a_service_would_refuse_are_told_before_anything_is_made(tmp_path: Path) -> None:
    folder = checkout(tmp_path, 'project = "ourteamscompilegates"\nregion = "us-east-1"')
    topics = folder / "workloads" / "topics.toml"
    name = "topics-of-every-newspaper-of-the-world"
    group = "g" * 50
    topics.write_text(
        topics.read_text().replace('name = "topics"', f'name = "{name}"')
        + f'\n[registry]\ngroup = "{group}"\n'
    )
    topics.rename(topics.with_name(f"{name}.toml"))
    run = synth(folder)
    assert run.returncode == 2
    said = [line for line in run.stderr.splitlines() if line.startswith(str(folder))]
    assert [line.partition(": ")[2] for line in said] == [
        f"name: the name of its function, ourteamscompilegates-{name}-keeper, has 66 characters, "
        "allowed: 64, including the project's name",
        f"registry.group: the name of its group, ourteamscompilegates-{group}, has 71 characters, "
        "allowed: 63, including the project's name",
    ]


def test_the_cdk_cli_runs_the_app_of_this_checkout_and_validates_strictly() -> None:
    configuration = json.loads((REPOSITORY / "cdk.json").read_text())
    assert configuration["app"].endswith("python -m compilegate.infra.app")
    assert configuration["context"]["@aws-cdk/core:validateAgainstDefaultRules"] is True


def test_the_cli_is_pinned_and_its_lock_names_no_registry() -> None:
    package = json.loads((REPOSITORY / "package.json").read_text())
    lock = (REPOSITORY / "package-lock.json").read_text()
    pinned = package["dependencies"]["aws-cdk"]
    assert json.loads(lock)["packages"]["node_modules/aws-cdk"]["version"] == pinned
    assert "resolved" not in lock
