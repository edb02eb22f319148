"""From `pip install` of the wheel to the verdict on a user's own table, as README says it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.environments import ROOT, BuildError, NotOfferedError, folder, make, pip_install
from tests.init.test_init import stories
from tests.wheel.test_wheel import build


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel with what running needs, and nothing else."""
    wheel = build(ROOT, tmp_path_factory.mktemp("wheel"), of="wheel")
    place = folder("from-the-wheel", wheel)
    what = ["--constraint", str(ROOT / "constraints.txt"), f"{wheel}[run]"]

    def install(environment: Path) -> None:
        pip_install(environment, what)

    try:
        return make(place, "python3.11", install)
    except NotOfferedError as error:
        pytest.skip(str(error))
    except BuildError as error:
        pytest.fail(str(error))


@pytest.mark.environments
def test_a_table_comes_to_its_verdict(python: Path, tmp_path: Path) -> None:
    stories(tmp_path / "stories.csv", rows=400)

    def compilegate(*arguments: str) -> str:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [python.with_name("compilegate"), *arguments],
            cwd=tmp_path,
            env=kept,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    compilegate("init", "--csv", "stories.csv")
    assert "workloads/stories.toml: valid: 2 arms" in compilegate("validate", "stories")
    said = compilegate("run", "stories")
    decided = r"^decided: Release (baseline|compiled), seed \d+: .*\bRegistered: stories/1, Pending"
    assert re.search(decided, said, re.MULTILINE), said
