"""`compilegate derive-images`: what a program's requirements.txt asks for goes into images."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compilegate.cli.main import main
from compilegate.cli.workload.derive_images import with_setting

WORKLOAD = """
name = "mine"
description = "Two images"
seeds = [1, 2]
[data]
source = "folder"
folder = "rows"
[program]  # my own
folder = "code"
[arms.baseline]
compiler = "eager"
batch_size = 8
learning_rate = 1e-3
[arms.compiled]
compiler = "training-compiler"
image = "aws"
batch_size = 8
learning_rate = 1e-3
instance_type = "ml.p3.2xlarge"
[gate.metrics.accuracy]
direction = "higher"
margin = 0.03
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without images of its own, whose program brings a requirements.txt."""
    for folder in ("workloads/code", "workloads/rows"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "workloads" / "mine.toml").write_text(WORKLOAD)
    (tmp_path / "workloads" / "code" / "train.py").write_text("import pandas\n")
    (tmp_path / "workloads" / "code" / "requirements.txt").write_text("pandas>=2,<3  # tables\n")
    (tmp_path / "workloads" / "rows" / "rows.txt").write_text("one\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_the_refusal_names_the_command_that_mends_it(project: Path) -> None:
    done = run("validate", "mine")
    assert done.exit_code == 2
    assert "program.folder holds a requirements.txt" in done.stderr
    assert "`compilegate derive-images NAME`" in done.stderr


@pytest.mark.slow
def test_one_command_makes_the_workload_valid(project: Path) -> None:
    done = run("derive-images", "mine")
    assert done.exit_code == 0, done.output
    containers = project / "containers"
    added = (containers / "mine-training" / "requirements.txt").read_text()
    original = (containers / "training" / "requirements.txt").read_text()
    assert original in added
    assert added.endswith("\npandas<3,>=2\n")
    for name in ("Dockerfile", "image.toml", "constraints.txt"):
        kept = (containers / "training" / name).read_text()
        assert (containers / "mine-training" / name).read_text() == kept
    declared = tomllib.loads((project / "workloads" / "mine.toml").read_text())
    assert declared["program"] == {"folder": "code", "requirements_in_image": True}
    assert declared["arms"]["baseline"]["image"] == "mine-training"
    assert declared["arms"]["compiled"]["image"] == "mine-aws"
    assert "# my own" in (project / "workloads" / "mine.toml").read_text()
    valid = run("validate", "mine")
    assert valid.exit_code == 0, valid.stderr
    # The definition is what jobs get: the file stays out of their code.
    assert run("compile", "mine", "-o", "definition.json").exit_code == 0


def test_an_image_as_aws_made_it_is_extended_by_a_folder_of_its_own(project: Path) -> None:
    assert run("derive-images", "mine").exit_code == 0
    folder = project / "containers" / "mine-aws"
    assert tomllib.loads((folder / "image.toml").read_text())["base"] == {
        "framework": "pytorch-training-compiler",
        "version": "1.13.1",
        "processor": "gpu",
    }
    lines = (folder / "requirements.txt").read_text().splitlines()
    assert lines[-3:] == ["torch==1.13.1", "safetensors", "pandas<3,>=2"]


def test_what_is_new_in_requirements_is_refused_until_it_is_derived_again(project: Path) -> None:
    assert run("derive-images", "mine").exit_code == 0
    with (project / "workloads" / "code" / "requirements.txt").open("a") as file:
        file.write("scipy\n")
    refused = run("validate", "mine")
    assert refused.exit_code == 2
    assert "the image 'mine-training' of arms.baseline.image lacks 'scipy'" in refused.stderr
    assert run("compile", "mine").exit_code == 2
    assert run("derive-images", "mine").exit_code == 0
    assert run("validate", "mine").exit_code == 0
    derived = {path.name for path in (project / "containers").glob("mine-*")}
    assert derived == {"mine-training", "mine-aws"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("--extra-index-url https://example.com", "line 2: found '--extra-index-url"),
        ("-r more.txt", "line 2: found '-r more.txt'"),
        ("mine @ git+https://example.com/mine", "line 2: found 'mine @ git+https"),
    ],
)
def test_what_is_more_than_packages_is_refused_by_its_line(
    project: Path, line: str, found: str
) -> None:
    (project / "workloads" / "code" / "requirements.txt").write_text(f"pandas\n{line}\n")
    done = run("derive-images", "mine")
    assert done.exit_code == 2
    assert found in done.stderr
    assert not (project / "containers").exists()


def test_a_folder_that_somebody_wrote_is_left_alone(project: Path) -> None:
    own = project / "containers" / "mine-training"
    for folder in ("training", "training-compiler", "gate"):
        (project / "containers" / folder).mkdir(parents=True)
        (project / "containers" / folder / "Dockerfile").write_text("FROM scratch\n")
        (project / "containers" / folder / "requirements.txt").write_text("numpy\n")
    own.mkdir()
    (own / "requirements.txt").write_text("mine\n")
    done = run("derive-images", "mine")
    assert done.exit_code == 2
    assert "mine-training is a folder that was not derived" in done.stderr
    assert (own / "requirements.txt").read_text() == "mine\n"


def test_a_workload_that_cannot_be_changed_is_told_what_to_write(project: Path) -> None:
    path = project / "workloads" / "mine.toml"
    written = WORKLOAD.replace('[program]  # my own\nfolder = "code"\n', "").replace(
        "seeds =", 'program = { folder = "code" }\nseeds ='
    )
    path.write_text(written)
    done = run("derive-images", "mine")
    assert done.exit_code == 0
    assert path.read_text() == written
    assert "  [program]\n  requirements_in_image = true\n" in done.output


def test_a_workload_without_anything_to_build_is_said_so(project: Path) -> None:
    (project / "workloads" / "code" / "requirements.txt").unlink()
    done = run("derive-images", "mine")
    assert done.exit_code == 2
    assert "so there is nothing to build into an image" in done.stderr


def test_a_setting_replaces_the_one_of_its_own_table_alone() -> None:
    text = '[a]\nimage = "x"\n[a.b]\nimage = "y"\n'
    assert with_setting(text, "a", "image", "z") == text.replace('"x"', '"z"')
    assert with_setting(text, "c", "image", "z") == text
