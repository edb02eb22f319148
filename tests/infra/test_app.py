"""The app as the CDK CLI runs it: a process, and sentences for what is wrong with its input."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.infra.assembly import PROJECT

HERE = Path(__file__).parent
TOPICS = (HERE / "project" / "workloads" / "topics.toml").read_text()
REGION = 'region = "us-east-1"\n'
LONG, GROUP = "topics-of-every-newspaper-of-the-world", f'\n[registry]\ngroup = "{"g" * 50}"\n'
OTHER = TOPICS.replace('name = "topics"', 'name = "other"') + '\n[registry]\ngroup = "topics"\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "workloads", "sentences"),
    [
        ('projekt = "x"', {}, ["projekt"]),
        ("", {}, ["infra/settings.toml: region: found none"]),
        ('region = "xx-east-1"', {}, ["AWS has no image pytorch 2.13 (gpu) in xx-east-1"]),
        (REGION, {"other": OTHER}, ["registry.group: found 'topics', which other already uses"]),
        (
            REGION,
            {"topics": TOPICS.replace("\n[arms.c", 'instance_type = "ml.p3.2xlarge"\n\n[arms.c')},
            ["workloads/topics.toml: arms.baseline.instance_type: AWS's image of PyTorch 2.13 has"],
        ),
        (
            f'project = "ourteamscompilegates"\n{REGION}',
            {LONG: TOPICS.replace('name = "topics"', f'name = "{LONG}"') + GROUP},
            [
                f"name: the name of its function, ourteamscompilegates-{LONG}-keeper, has 66 "
                "characters, allowed: 64, including the project's name",
                f"registry.group: the name of its group, ourteamscompilegates-{'g' * 50}, has 71 "
                "characters, allowed: 63, including the project's name",
            ],
        ),
    ],
    ids=["key", "region", "region-without-images", "group", "no-kernels", "names"],
)
def test_invalid_input_is_refused_before_anything_is_made(
    tmp_path: Path, settings: str, workloads: Mapping[str, str], sentences: list[str]
) -> None:
    shutil.copytree(HERE / "project", tmp_path, dirs_exist_ok=True)
    (tmp_path / "infra" / "settings.toml").write_text(settings)
    for name, text in workloads.items():
        (tmp_path / "workloads" / f"{name}.toml").write_text(text)
    run = subprocess.run(
        [sys.executable, "-m", "compilegate.infra.app"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("CDK")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "Traceback" not in run.stderr
    for sentence in sentences:
        assert sentence in run.stderr


def test_the_cli_is_pinned_and_runs_the_app_of_this_checkout_strictly() -> None:
    configuration = json.loads((PROJECT / "cdk.json").read_text())
    assert configuration["app"].endswith("python -m compilegate.infra.app")
    assert configuration["context"]["@aws-cdk/core:validateAgainstDefaultRules"] is True
    package = json.loads((PROJECT / "package.json").read_text())
    lock = (PROJECT / "package-lock.json").read_text()
    pinned = package["dependencies"]["aws-cdk"]
    assert json.loads(lock)["packages"]["node_modules/aws-cdk"]["version"] == pinned
    assert "resolved" not in lock, "it names no registry"
