"""What may import what: docs/architecture.toml, held against the code."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.imports.project import (
    PROJECT,
    circles,
    imports,
    is_standard,
    modules,
    room_of,
    rooms,
    within,
)


def offences() -> Iterator[str]:
    """The imports that their room may not have."""
    for each in imports():
        own = room_of(each.by)
        if each.of in modules():
            right = room_of(each.of) == own or within(each.of, rooms()[own].imports)
        else:
            right = is_standard(each.of) or within(each.of, rooms()[own].libraries)
        if not right:
            yield f"{each.by} imports {each.of}"


@pytest.mark.slow
def test_every_room_imports_only_what_it_may() -> None:
    assert list(offences()) == []


@pytest.mark.slow
def test_the_training_program_takes_public_names_alone() -> None:
    taken = {each.of for each in imports() if within(each.by, ["training"])}
    inside = {name for name in taken if within(name, ["compilegate"])}
    everywhere = {"compilegate.job.errors", "compilegate.job.files", "compilegate.job.names"}
    # It starts its own process and reads every compiler's options: launchers do, scripts do not.
    starting = {
        "compilegate.job.compilers",
        "compilegate.job.launch.torchrun",
        "compilegate.job.launch.supervisor",
    }
    assert inside == {"compilegate.job", *everywhere, *starting}
    starters = {each.by for each in imports() if each.of in starting}
    assert {name for name in starters if within(name, ["training"])} == {
        "training.arguments",
        "training.job",
        "training.train",
    }


def test_every_room_and_every_module_a_rule_names_exists() -> None:
    named = {*rooms(), *(name for room in rooms().values() for name in room.imports)}
    assert [name for name in named if not any(within(each, [name]) for each in modules())] == []


def test_the_rules_allow_no_circle() -> None:
    allowed = {
        name: {other for other in rooms() if other != name and within(other, room.imports)}
        for name, room in rooms().items()
    }
    assert circles(allowed) == []


def siblings(package: str) -> dict[str, set[str]]:
    """Which parts of a package import which others when they are loaded."""

    def part(module: str) -> str:
        rest = module.removeprefix(f"{package}.")
        return rest.split(".", maxsplit=1)[0] if rest != module else ""

    edges: dict[str, set[str]] = defaultdict(set)
    for each in imports():
        if each.when_loaded and each.of in modules():
            by, of = part(each.by), part(each.of)
            if by and of and by != of:
                edges[by].add(of)
    return edges


def circular_packages() -> dict[str, list[list[str]]]:
    packages = {name.rpartition(".")[0] for name in modules()} - {"", "compilegate"}
    found = {package: circles(siblings(package)) for package in packages}
    return {package: groups for package, groups in found.items() if groups}


@pytest.mark.slow
def test_no_module_imports_itself_in_a_circle() -> None:
    edges: dict[str, set[str]] = defaultdict(set)
    for each in imports():
        if each.when_loaded and each.of in modules() and each.of != each.by:
            edges[each.by].add(each.of)
    assert circles(edges) == []


@pytest.mark.slow
def test_the_parts_of_a_room_import_one_another_in_no_circle() -> None:
    assert circular_packages() == {}


def users(of: str) -> list[str]:
    """The modules that import a module or library, wherever in their code."""
    return sorted({each.by for each in imports() if within(each.of, [of])})


@pytest.mark.parametrize("room", ["infra", "compilegate.cli"])
def test_nothing_imports_a_room_at_the_edge(room: str) -> None:
    assert [user for user in users(room) if not within(user, [room])] == []


def in_the_gates_image() -> set[str]:
    """The packages of the gate's image, by the names that its lock file gives them."""
    lock = (PROJECT / "containers/gate/requirements.lock").read_text(encoding="utf-8")
    return {name.replace("-", "_") for name in re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE)}


IMPORT_WITH_NOTHING_ELSE = """
import sys
import tomllib
class Missing:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top[0] != "_" and top not in {{*{allowed!r}, *sys.stdlib_module_names}}:
            raise ModuleNotFoundError(f"{{name}} is not here", name=name)
sys.meta_path.insert(0, Missing())
import importlib
for module in {modules!r}:
    importlib.import_module(module)
print(*sorted(name for name in sys.modules if "." not in name))
"""


def loaded_by(modules: Iterable[str], allowed: Iterable[str]) -> set[str]:
    """What is loaded by importing modules where nothing but these packages is installed."""
    code = IMPORT_WITH_NOTHING_ELSE.format(modules=sorted(modules), allowed=sorted(allowed))
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return set(ended.stdout.split())


@pytest.mark.slow
def test_the_gate_runs_with_what_its_image_has() -> None:
    judging = ["compilegate.gate", "compilegate.report"]
    names = [
        name for name in modules() if within(name, [*judging, "compilegate.pipelines.programs"])
    ]
    assert "compilegate.gate.judge" in names
    loaded = loaded_by(names, {"compilegate", *in_the_gates_image()})
    assert "scipy" in loaded


@pytest.mark.slow
def test_importing_the_package_loads_nothing_else() -> None:
    bare = loaded_by([], ["compilegate"])
    assert loaded_by(["compilegate"], ["compilegate"]) - bare == {"compilegate"}


def test_nothing_imports_the_sagemaker_sdk() -> None:
    """Its import costs six seconds."""
    assert users("sagemaker") == []


def always_installed() -> set[str]:
    """The packages that an installation without extras asks for."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {Requirement(line).name for line in project["dependencies"]}


def brought_by(packages: Iterable[str]) -> set[str]:
    """The import names of these packages and of all that they depend on."""
    names = metadata.packages_distributions()
    waiting, found = {canonicalize_name(each) for each in packages}, set[str]()
    while waiting:
        name = waiting.pop()
        found.add(name)
        lines = [Requirement(line) for line in metadata.requires(name) or ()]
        waiting |= {
            canonicalize_name(line.name)
            for line in lines
            if line.marker is None or line.marker.evaluate({"extra": ""})
        } - found
    return {top for top, of in names.items() if found & set(map(canonicalize_name, of))}


@pytest.mark.slow
def test_all_commands_start_without_what_only_running_needs() -> None:
    """CI that validates, plans and submits installs no PyTorch and no SageMaker SDK."""
    brought = brought_by(always_installed())
    assert not brought & {"torch", "transformers", "sagemaker", "pyarrow", "aws_cdk"}
    commands = [name for name in modules() if within(name, ["compilegate.cli"])]
    working = ["compilegate.pipelines.compilation", "compilegate.account", "compilegate.local"]
    needed = [name for name in modules() if within(name, working)]
    loaded = loaded_by([*commands, *needed], {"compilegate", *brought})
    assert {"click", "boto3", "numpy"} <= loaded
