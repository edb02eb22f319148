"""A job may change its environment; nobody else's changes by that."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.events import StepOutput
from compilegate.execution.status import ExecutionStatus
from compilegate.local import ImageSources

pytestmark = [pytest.mark.slow, pytest.mark.long]

NAME = "tiny_package_for_jobs"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes all packages from, with one package in two versions."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        with zipfile.ZipFile(folder / f"{NAME}-{version}-py3-none-any.whl", "w") as wheel:
            info = f"{NAME}-{version}.dist-info"
            wheel.writestr(f"{NAME}.py", f"VERSION = {version!r}\ndef main(): print(VERSION)\n")
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n"
            )
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(
                f"{info}/entry_points.txt", f"[console_scripts]\ntiny-package = {NAME}:main\n"
            )
            wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def train_with(bench: Any, name: str, files: dict[str, str], program: str = "train.py") -> Any:
    """A Training step with a source of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, text in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    uri = bench.put(f"s3://bucket/{name}.tar.gz", buffer.getvalue())
    own = {
        "sagemaker_program": json.dumps(program),
        "sagemaker_submit_directory": json.dumps(uri),
    }
    return bench.training(name, hyperparameters=own)


PRINTS = f"import {NAME} as t; print('it is', t.VERSION)"


@pytest.mark.slow
def test_what_jobs_install_at_one_moment_stays_theirs(bench: Any, wheels: Path) -> None:
    code = """
        import importlib.util, os, subprocess, sys
        version = sys.argv[1]
        name = "tiny_package_for_jobs"
        assert importlib.util.find_spec(name) is None
        by_module = [sys.executable, "-m", "pip", "install", "-q", f"{name}=={version}"]
        by_script = ["pip", "install", "-q", f"{name}=={version}"]
        subprocess.run(by_module if version == "1.0" else by_script, check=True)
        print(subprocess.run(["tiny-package"], check=True, capture_output=True, text=True).stdout)
    """
    steps = [bench.processing(f"job-{v[0]}", code, arguments=[v]) for v in ("1.0", "2.0")]
    for own_root in (None, False):
        result = bench.run(*steps, own_root=own_root)
        assert result.status is ExecutionStatus.SUCCEEDED, result.failure
        assert result.steps["job-1"].log.read_text().split() == ["1.0"]
        assert result.steps["job-2"].log.read_text().split() == ["2.0"]
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version(NAME)


def content_of(folder: Path) -> dict[str, str]:
    """Every file and link of a folder but what Python compiles, with a digest of each."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if "__pycache__" not in path.parts and (path.is_symlink() or path.is_file())
    }


def listing_of(folder: Path) -> set[tuple[str, int]]:
    """The same for a folder that is too large to be read whole: when each entry was changed."""
    return {
        (str(path), path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.name != "__pycache__" and path.parent.name != "__pycache__" and not path.is_dir()
    }


@pytest.mark.slow
@pytest.mark.parametrize("own_root", [None, False], ids=["as it is", "rewriting"])
def test_no_byte_of_an_image_changes_when_jobs_install_over_it(
    bench: Any, wheels: Path, tmp_path: Path, own_root: bool | None
) -> None:
    venv = tmp_path / "image"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (packages,) = venv.glob("lib/python3*/site-packages")
    with zipfile.ZipFile(wheels / f"{NAME}-1.0-py3-none-any.whl") as wheel:
        wheel.extractall(packages)  # noqa: S202  it is our own
    here = Path(sysconfig.get_path("purelib"))
    before, listed = content_of(venv), listing_of(here)
    code = f"""
        import subprocess, sys
        if sys.argv[1] != "0":
            pip = [sys.executable, "-m", "pip", "install", "-q", "{NAME}==" + sys.argv[1]]
            subprocess.run(pip, check=True)
        print(subprocess.run([sys.executable, "-c", "import {NAME} as t; print(t.VERSION)"],
                             capture_output=True, text=True).stdout)
    """
    names = {"job-0": "0", "job-1": "1.0", "job-2": "2.0"}
    steps = [bench.processing(name, code, arguments=[told]) for name, told in names.items()]
    source = {"requirements.txt": f"{NAME}>=2\n", "train.py": PRINTS}
    images = ImageSources(patterns=(("*", str(venv / "bin/python")),))
    result = bench.run(*steps, train_with(bench, "fit", source), images=images, own_root=own_root)
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    logs = {name: result.steps[name].log.read_text() for name in names}
    assert {name: log.split()[-1] for name, log in logs.items()} == {
        "job-0": "1.0",
        "job-1": "1.0",
        "job-2": "2.0",
    }
    assert "it is 2.0" in result.steps["fit"].log.read_text()
    bench.run(*steps[1:], own_root=own_root)
    assert content_of(venv) == before
    assert listing_of(here) == listed


@pytest.mark.slow
def test_the_requirements_of_a_source_are_installed_once_for_all_jobs(
    bench: Any, wheels: Path
) -> None:
    files = {"requirements.txt": f"{NAME}<2\n", "train.py": PRINTS}
    steps = [train_with(bench, name, files) for name in ("first", "second")]
    result = bench.run(*steps)
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    logs = [result.steps[name].log.read_text() for name in ("first", "second")]
    assert all("it is 1.0" in log for log in logs)
    assert sum("Successfully installed" in log for log in logs) == 1
    said = [event.line for event in bench.events if isinstance(event, StepOutput)]
    assert said.count("installing what requirements.txt of the source names") == 1
    assert len(list(bench.home.glob("environments/*/complete"))) == 1
    other = bench.run(train_with(bench, "third", {**files, "requirements.txt": f"{NAME}\n"}))
    assert "it is 2.0" in other.steps["third"].log.read_text()


@pytest.mark.slow
def test_a_source_that_is_a_package_is_installed_and_run_as_a_module(
    bench: Any, wheels: Path
) -> None:
    pytest.importorskip("setuptools", reason="a setup.py needs it, and no index is reached")
    setup = f"""
from setuptools import setup
setup(name="mine", version="1", py_modules=["helper"], install_requires=["{NAME}"])
"""
    files = {
        "setup.py": setup,
        "helper.py": PRINTS,
        "train.py": "import helper",
        "setup.cfg": "",
    }
    step = train_with(bench, "train", files)
    step["Arguments"]["Environment"] = {"PIP_NO_BUILD_ISOLATION": "0"}
    result = bench.run(step)
    assert result.status is ExecutionStatus.SUCCEEDED, result.steps["train"].log.read_text()
    assert "it is 2.0" in result.steps["train"].log.read_text()


@pytest.mark.slow
def test_requirements_that_cannot_be_installed_fail_the_step_with_pips_own_words(
    bench: Any, wheels: Path
) -> None:
    files = {"requirements.txt": "nowhere-to-be-found\n", "train.py": ""}
    result = bench.run(train_with(bench, "train", files))
    assert result.status is ExecutionStatus.FAILED
    assert result.steps["train"].failure.sentence == (
        "what requirements.txt of its source names could not be installed: "
        "No matching distribution found for nowhere-to-be-found"
    )
    assert any("nowhere-to-be-found" in line for line in result.steps["train"].failure.last_lines)
    assert not list(bench.home.glob("environments/*/complete"))


def test_requirements_that_the_image_fulfils_install_nothing(bench: Any) -> None:
    files = {"requirements.txt": "pytest>=7\n", "train.py": "import pytest; print('there')"}
    result = bench.run(train_with(bench, "train", files))
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert result.steps["train"].log.read_text() == "there\n"


def test_a_python_that_cannot_be_run_is_named(bench: Any, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("no program")
    images = ImageSources(patterns=(("*", str(python)),))
    result = bench.run(bench.processing("job"), images=images)
    assert f"Python {python} does not say where its packages are" in result.failure
