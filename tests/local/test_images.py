"""An image is this interpreter when its requirements hold here, else an environment built once."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.events import EnvironmentBuilding
from compilegate.local import ImageEnvironmentError, ImageSources
from compilegate.local.home.images import (
    Environment,
    UnbuiltEnvironment,
    find_image,
    first_unmet,
    repository_name,
)

URI = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/team/training:1.2@sha256:ab"


def image(root: Path, requirements: str, name: str = "training") -> ImageSources:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "requirements.txt").write_text(requirements)
    return ImageSources(root=root)


@pytest.mark.parametrize(
    "uri", [URI, "training", "training:latest", "host:5000/a/training@sha256:ab"]
)
def test_the_repositorys_last_part_names_the_image_folder(uri: str) -> None:
    assert repository_name(uri) == "training"


@pytest.mark.parametrize(
    "line",
    [
        "pytest",
        "pytest>=7  # the test runner",
        "# nothing\n\npytest",
        'nowhere-to-be-found; python_version < "3"',
    ],
)
def test_requirements_that_hold_here_make_this_interpreter_the_image(
    tmp_path: Path, line: str
) -> None:
    found = find_image(URI, image(tmp_path, line))
    assert isinstance(found, Environment)
    assert (found.python, found.here) == (Path(sys.executable), True)


@pytest.mark.parametrize(
    "line",
    [
        "nowhere-to-be-found",
        "pytest<1",
        "pytest @ https://files.example/pytest.whl",
        "-r other.txt",
        "not a requirement!",
    ],
)
def test_a_requirement_that_does_not_hold_asks_for_an_environment(
    tmp_path: Path, line: str
) -> None:
    sources = image(tmp_path, f"pytest\n{line}\n")
    found = find_image(URI, sources)
    assert found == UnbuiltEnvironment(tmp_path / "training" / "requirements.txt", line)
    assert first_unmet(tmp_path / "training" / "requirements.txt") == line


def test_the_first_pattern_that_matches_comes_before_the_folders(tmp_path: Path) -> None:
    sources = image(tmp_path, "nowhere-to-be-found")
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    patterns = (("*/other:*", "here"), ("*/training:*", str(python)), ("*", "here"))
    found = find_image(URI, ImageSources(root=sources.root, patterns=patterns))
    assert isinstance(found, Environment)
    assert (found.python, found.here) == (python, False)


def test_a_pattern_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    sources = ImageSources(patterns=(("*", str(tmp_path / "none")),))
    with pytest.raises(ImageEnvironmentError, match="is neither 'here', nor a folder"):
        find_image(URI, sources)


@pytest.mark.long
@pytest.mark.slow
def test_an_environment_is_built_once_and_its_interpreter_runs_the_jobs(
    bench: Any, tmp_path: Path
) -> None:
    package = tmp_path / "package"
    (package / "tiny_package_for_a_test").mkdir(parents=True)
    (package / "tiny_package_for_a_test" / "__init__.py").write_text("VALUE = 42\n")
    metadata = "Metadata-Version: 2.1\nName: tiny-package-for-a-test\nVersion: 1.0\n"
    wheel = wheel_of(package, metadata, tmp_path)
    images = image(tmp_path / "images", f"{wheel}\n", name="processing")
    code = "import tiny_package_for_a_test as t; print(t.VALUE, t.__file__)"
    results = [bench.run(bench.processing("job", code), images=images) for _ in range(2)]
    for result in results:
        value, _, file = result.steps["job"].log.read_text().strip().partition(" ")
        assert value == "42"
        assert file.startswith(str(bench.home / "environments"))
    building = [event for event in bench.events if isinstance(event, EnvironmentBuilding)]
    assert [event.image for event in building] == ["registry.example/processing:1"]


def environment(folder: Path, packages: Mapping[str, Sequence[str]]) -> Environment:
    """One whose image asks for `numpy`, with these installed: `name==version`, what each needs."""
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
    ("changed", "same"),
    [
        ({"linter==9.0": "linter==9.1"}, True),
        ({"trainer==1.0": "trainer==1.1"}, False),
        ({"tensors==2.1": "tensors==2.2"}, False),
        ({"kernels==0.3": "kernels==0.4"}, False),
    ],
)
def test_a_result_depends_on_what_the_image_asks_for_and_what_that_needs(
    tmp_path: Path, changed: Mapping[str, str], same: bool
) -> None:
    other = {changed.get(name, name): needs for name, needs in INSTALLED.items()}
    before, after = environment(tmp_path / "a", INSTALLED), environment(tmp_path / "b", other)
    assert (before.closure() == after.closure()) == same
    assert before.identity != after.identity


def test_what_a_workload_asks_for_itself_counts_too(tmp_path: Path) -> None:
    other = {name.replace("9.0", "9.1"): needs for name, needs in INSTALLED.items()}
    before, after = environment(tmp_path / "a", INSTALLED), environment(tmp_path / "b", other)
    assert before.closure("linter\n") != after.closure("linter\n")
    assert before.closure("absent\n") != before.closure()


def wheel_of(package: Path, metadata: str, folder: Path) -> Path:
    """A wheel needs no index and no build tool: it is a zip file."""
    info = package / "tiny_package_for_a_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata)
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    (info / "RECORD").write_text("")
    path = folder / "tiny_package_for_a_test-1.0-py3-none-any.whl"
    command = [sys.executable, "-m", "zipfile", "-c", str(path), *map(str, package.iterdir())]
    subprocess.run(command, check=True)
    return path


@pytest.mark.long
@pytest.mark.slow
def test_a_build_that_fails_says_where_its_log_is_and_starts_nothing(
    bench: Any, tmp_path: Path
) -> None:
    images = image(tmp_path, "/nowhere/to_be_found-1.0-py3-none-any.whl", name="processing")
    with pytest.raises(ImageEnvironmentError, match="could not be built") as caught:
        bench.run(bench.processing("job"), images=images)
    log = Path(str(caught.value).rpartition("see ")[2])
    assert "to_be_found" in log.read_text()
    assert not list(bench.home.glob("executions/*/execution.json"))
