"""An image is a Python environment, and a job may change its own; nobody else's changes by that."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import pytest

from compilegate.execution.events import EnvironmentBuilding, StepOutput
from compilegate.local import ImageEnvironmentError, ImageSources
from compilegate.local.home.images import (
    Environment,
    UnbuiltEnvironment,
    find_image,
)
from tests.local.conftest import Workbench, failure_of, log_of

NAME = "tiny_package_for_jobs"
URI = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/team/training:1.2@sha256:ab"


def image(root: Path, requirements: str, name: str = "training") -> ImageSources:
    (root / name).mkdir(parents=True)
    (root / name / "requirements.txt").write_text(requirements)
    return ImageSources(root=root)


@pytest.mark.parametrize(
    ("line", "here"),
    [
        ("pytest>=7  # the test runner", True),
        ("# nothing\n\npytest", True),
        ('nowhere-to-be-found; python_version < "3"', True),
        ("nowhere-to-be-found", False),
        ("pytest<1", False),
        ("pytest @ https://files.example/pytest.whl", False),
        ("-r other.txt", False),
        ("not a requirement!", False),
    ],
)
def test_here_is_an_image_whose_requirements_hold(tmp_path: Path, line: str, here: bool) -> None:
    found = find_image(URI, image(tmp_path, f"pytest\n{line}\n"))
    if here:
        assert isinstance(found, Environment)
        assert (found.python, found.here) == (Path(sys.executable), True)
    else:
        assert found == UnbuiltEnvironment(tmp_path / "training" / "requirements.txt", line)


def test_the_first_pattern_that_matches_comes_before_the_folders(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    patterns = (("*/other:*", "here"), ("*/training:*", str(python)), ("*", "here"))
    sources = image(tmp_path, "nowhere-to-be-found")
    found = find_image(URI, ImageSources(root=sources.root, patterns=patterns))
    assert isinstance(found, Environment)
    assert (found.python, found.here) == (python, False)
    with pytest.raises(ImageEnvironmentError, match="is neither 'here', nor a folder"):
        find_image(URI, ImageSources(patterns=(("*", str(tmp_path / "none")),)))


def environment(folder: Path, packages: Mapping[str, Sequence[str]]) -> Environment:
    """One whose image asks for `trainer`, with these installed: what each of them needs."""
    site = folder / "lib" / "python3.11" / "site-packages"
    for pinned, needs in packages.items():
        name, version = pinned.split("==")
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {n}" for n in needs)]
        (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")
    requirements = folder / "requirements.txt"
    requirements.write_text("trainer[fast]>=1  # with its extra\n")
    return Environment(folder / "bin/python", False, "Python", requirements=requirements)


INSTALLED: Mapping[str, Sequence[str]] = {
    "trainer==1.0": ["tensors>=2", 'kernels; extra == "fast"', 'nowhere; extra == "slow"'],
    "tensors==2.1": ["trainer"],
    "kernels==0.3": [],
    "linter==9.0": ["tensors"],
}


@pytest.mark.parametrize(
    ("old", "new", "own", "same"),
    [
        ("linter==9.0", "linter==9.1", "", True),
        ("linter==9.0", "linter==9.1", "linter\n", False),  # by the workload itself
        ("trainer==1.0", "trainer==1.1", "", False),
        ("tensors==2.1", "tensors==2.2", "", False),
        ("kernels==0.3", "kernels==0.4", "", False),
    ],
)
def test_a_result_depends_on_what_its_image_asks_for(
    tmp_path: Path, old: str, new: str, own: str, same: bool
) -> None:
    other = {name.replace(old, new): needs for name, needs in INSTALLED.items()}
    before, after = environment(tmp_path / "a", INSTALLED), environment(tmp_path / "b", other)
    assert (before.closure(own) == after.closure(own)) == same
    assert before.identity != after.identity
    assert before.closure("absent\n") != before.closure()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes all packages from, with one package in two versions.

    A wheel needs no index and no build tool: it is a zip file.
    """
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        info = f"{NAME}-{version}.dist-info"
        files = {
            f"{NAME}.py": f"VERSION = {version!r}\ndef main(): print(VERSION)\n",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": f"[console_scripts]\ntiny-package = {NAME}:main\n",
            f"{info}/RECORD": "",
        }
        with zipfile.ZipFile(folder / f"{NAME}-{version}-py3-none-any.whl", "w") as wheel:
            for path, text in files.items():
                wheel.writestr(path, text)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


PRINTS = f"import {NAME} as t; print('it is', t.VERSION)"


def content_of(folder: Path) -> dict[str, str]:
    """Every file and link of a folder but what Python compiles, with a digest of each."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if "__pycache__" not in path.parts and (path.is_symlink() or path.is_file())
    }


@pytest.mark.long
@pytest.mark.slow
def test_jobs_install_and_no_byte_of_their_image_changes(
    bench: Workbench, wheels: Path, tmp_path: Path
) -> None:
    venv = tmp_path / "image"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (packages,) = venv.glob("lib/python3*/site-packages")
    with zipfile.ZipFile(wheels / f"{NAME}-1.0-py3-none-any.whl") as wheel:
        wheel.extractall(packages)
    here = [Path(sysconfig.get_path(name)) for name in ("purelib", "scripts")]
    before = content_of(venv), [sorted(folder.iterdir()) for folder in here]
    code = f"""
        import subprocess, sys
        installs = {{"1.0": [sys.executable, "-m", "pip"], "2.0": ["pip"]}}
        if version := sys.argv[1]:
            install = [*installs[version], "install", "-q", f"{NAME}=={{version}}"]
            subprocess.run(install, check=True)
            version == "2.0" and subprocess.run(["tiny-package"], check=True)
        sys.exit(subprocess.run([sys.executable, "-c", "{PRINTS}"]).returncode)
    """
    steps = [bench.processing(f"job{v[:1]}", code, arguments=[v]) for v in ("", "1.0", "2.0")]
    source = {"requirements.txt": f"{NAME}>=2\n"}
    fit = bench.training("fit", PRINTS, files=source)
    images = ImageSources(patterns=(("*", str(venv / "bin/python")),))
    result = bench.succeed(*steps, fit, images=images)
    assert log_of(result, "job") == "it is 1.0\n"
    assert "it is 2.0" in log_of(result, "fit")
    over_this = bench.succeed(*steps[1:], own_root=False)
    for each in (result, over_this):
        assert log_of(each, "job1") == "it is 1.0\n"
        assert log_of(each, "job2") == "2.0\nit is 2.0\n"
    assert before == (content_of(venv), [sorted(folder.iterdir()) for folder in here])
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version(NAME)


@pytest.mark.long
@pytest.mark.slow
def test_what_a_source_names_is_installed_once(bench: Workbench, wheels: Path) -> None:
    setup = f"""
from setuptools import setup
setup(name="mine", version="1", py_modules=["helper"], install_requires=["{NAME}"])
"""
    files = {
        "first": {"requirements.txt": f"{NAME}<2\n"},
        "second": {"requirements.txt": f"{NAME}<2\n"},
        "other": {"requirements.txt": f"{NAME}\n"},
        "package": {"setup.py": setup, "helper.py": PRINTS, "setup.cfg": ""},
        "bad": {"requirements.txt": "nowhere-to-be-found\n"},
        "there": {"requirements.txt": "pytest>=7\n"},
    }
    codes = {"package": "import helper", "there": "import pytest; print('there')"}
    steps = [bench.training(name, codes.get(name, PRINTS), files=files[name]) for name in files]
    isolation = {"PIP_NO_BUILD_ISOLATION": "0"}  # setuptools is here, and no index is reached
    result = bench.run_each(
        *(step | {"Arguments": step["Arguments"] | {"Environment": isolation}} for step in steps)
    )
    versions = {"first": "1.0", "second": "1.0", "other": "2.0", "package": "2.0"}
    for name, version in versions.items():
        assert f"it is {version}" in log_of(result, name)
    assert log_of(result, "there") == "there\n"
    both = [log_of(result, name) for name in ("first", "second")]
    assert sum("Successfully installed" in log for log in both) == 1
    lines = [it.line for it in bench.events if isinstance(it, StepOutput) and it.step != "other"]
    installing = "installing the packages of requirements.txt in the source"
    assert lines.count(installing) == 2  # once for both, and for "bad"
    assert len(list(bench.home.glob("environments/*/complete"))) == 3
    sentence, *last_lines = failure_of(result, "bad").splitlines()
    assert sentence == (
        "the packages of requirements.txt in its source could not be installed: "
        "No matching distribution found for nowhere-to-be-found"
    )
    assert any("nowhere-to-be-found" in line for line in last_lines)


@pytest.mark.long
@pytest.mark.slow
def test_an_environment_is_built_once_or_nothing_starts(
    bench: Workbench, wheels: Path, tmp_path: Path
) -> None:
    bad = image(tmp_path / "bad", "/nowhere/to_be_found-1.0-py3-none-any.whl", "processing")
    step = bench.processing("job", f"import {NAME} as t; print(t.VERSION, t.__file__)")
    with pytest.raises(ImageEnvironmentError, match="could not be built") as caught:
        bench.run(step, images=bad)
    assert "to_be_found" in Path(str(caught.value).rpartition("see ")[2]).read_text()
    assert not list(bench.home.glob("executions/*/execution.json"))
    bench.events.clear()
    images = image(tmp_path / "good", f"{NAME}\n", "processing")
    for result in [bench.succeed(step, images=images) for _ in range(2)]:
        version, _, file = log_of(result, "job").partition(" ")
        assert version == "2.0"
        assert file.startswith(str(bench.home / "environments"))
    building = [event for event in bench.events if isinstance(event, EnvironmentBuilding)]
    assert [event.image for event in building] == ["registry.example/processing:1"]


@pytest.mark.slow
def test_a_python_that_cannot_be_run_is_named(bench: Workbench, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("no program")
    images = ImageSources(patterns=(("*", str(python)),))
    result = bench.run(bench.processing("job"), images=images)
    assert f"Python {python} does not say where its packages are" in str(result.failure)
