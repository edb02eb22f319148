"""What `pip install compilegate` gives: one package, which works in any folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.test_main_job import folder_with, steps_that

pytestmark = pytest.mark.long

PROJECT = Path(__file__).parents[2]
CONTENT = {
    "compilegate": "compilegate",
    "pipelines": "compilegate/pipelines",
    "infra": "compilegate/infra",
    "training": "compilegate/built_in/training",
    "containers": "compilegate/built_in/containers",
}
"""By folder of the repository, where it lies in the wheel."""


def build(source: Path, target: Path, *, of: str) -> Path:
    """A wheel or an sdist, made with nothing from the network."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", of, "--directory", str(target)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (made,) = target.glob("*.whl" if of == "wheel" else "*.tar.gz")
    return made


def files_of(wheel: Path) -> dict[str, bytes]:
    """What the wheel installs, but for its own metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name
        }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(PROJECT, tmp_path_factory.mktemp("wheel"), of="wheel")


def test_the_wheel_holds_the_product_alone_and_the_sdist_makes_the_same(
    wheel: Path, tmp_path: Path
) -> None:
    expected = {
        f"{place}/{path.relative_to(PROJECT / folder).as_posix()}": path.read_bytes()
        for folder, place in CONTENT.items()
        for path in (PROJECT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = files_of(wheel)
    assert found.keys() == expected.keys()
    assert found == expected
    with tarfile.open(build(PROJECT, tmp_path, of="sdist")) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert files_of(build(unpacked, tmp_path / "again", of="wheel")) == found


@dataclass(frozen=True)
class Installed:
    """An environment that holds the wheel, and a folder of a user that hides nothing of it."""

    python: Path
    folder: Path

    def run(self, *arguments: str | Path) -> str:
        """What a command prints, in the user's folder; it must end well."""
        return self._output(str(self.python.with_name("compilegate")), *map(str, arguments))

    def print_of(self, code: str) -> str:
        """What Python prints for code, in the user's folder; it must end well."""
        return self._output(str(self.python), "-P", "-c", code)

    def _output(self, *command: str) -> str:
        # The user's own modules are on PYTHONPATH; nothing of this checkout is.
        own = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONUNBUFFERED": "1"}
        done = subprocess.run(
            command, cwd=self.folder, env=own, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    (site,) = environment.glob("lib/python3*/site-packages")
    libraries = [place for place in sys.path if Path(place).name == "site-packages"]
    (site / "libraries.pth").write_text("\n".join(libraries) + "\n", encoding="utf-8")
    folder = tmp_path_factory.mktemp("user")
    for name in ("training", "pipelines", "containers", "infra", "tests", "workloads"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"raise SystemExit('the user`s {name}')\n")
    return Installed(python, folder)


EXPLAIN = """
from click.testing import CliRunner
from compilegate.cli import main
for name in main.list_commands(None):
    shown = CliRunner().invoke(main, [name, "--help"], prog_name="compilegate")
    print(shown.output.splitlines()[0])
"""


@pytest.mark.slow
def test_one_name_is_installed_whose_every_command_explains_itself(installed: Installed) -> None:
    (site,) = installed.python.parents[1].glob("lib/python3*/site-packages")
    found = installed.print_of("import compilegate; print(compilegate.__file__)")
    assert Path(found.strip()) == site / "compilegate" / "__init__.py"
    added = {path.name for path in site.iterdir() if ".dist-info" not in path.name}
    assert added == {"compilegate", "libraries.pth"}
    listed = installed.run("--help").partition("Commands:\n")[2].partition("\n\n")[0]
    # A long sentence continues in a line of its own, further to the right.
    commands = [line.split()[0] for line in listed.splitlines() if line[2:3].strip()]
    assert {"validate", "pipeline", "run", "gate", "aws"} <= set(commands)
    usages = [line.split()[:3] for line in installed.print_of(EXPLAIN).splitlines()]
    assert usages == [["Usage:", "compilegate", command] for command in commands]


@pytest.mark.slow
def test_a_workload_is_trained_and_judged_in_any_folder(installed: Installed) -> None:
    folder = folder_with(installed.folder)
    assert "valid" in installed.run("validate", "tiny.toml")
    installed.run("pipeline", "compile", "tiny.toml", "--output", "tiny.json")
    assert json.loads((folder.path / "tiny.json").read_text())["Version"] == "2020-12-01"
    first = installed.run("run", "tiny.toml", "--home", "home")
    assert "Registered: tiny/1, PendingManualApproval." in first
    again = installed.run("pipeline", "run", "tiny.json", "--home", "home")
    trained = {"Prepare", "Train-baseline-1", "Train-candidate-1"}
    assert trained <= set(steps_that(first, "succeeded in"))
    assert set(steps_that(again, "taken from the cache")) == {*trained, "Open-registered"}
    assert "decided: Nothing is new" in again
