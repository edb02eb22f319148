"""What may import what: docs/architecture.toml and its picture, held against the code; budgets."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.imports.project import (
    PROJECT,
    Import,
    circle,
    imports,
    modules,
    room_of,
    rooms,
    within,
)
from tools.draw_architecture import diagram, picture
from tools.rooms import declared as budgets
from tools.rooms import main, measured


def may(each: Import) -> bool:
    """Whether its room may have an import."""
    own = room_of(each.by)
    if each.of in modules():
        return room_of(each.of) == own or within(each.of, rooms()[own].imports)
    standard = each.of.split(".", maxsplit=1)[0] in sys.stdlib_module_names
    return standard or within(each.of, rooms()[own].libraries)


@pytest.mark.slow
def test_every_room_imports_only_what_it_may() -> None:
    assert [f"{each.by} imports {each.of}" for each in imports() if not may(each)] == []


@pytest.mark.slow
def test_the_training_program_takes_public_names_alone() -> None:
    taken = {each.of for each in imports() if within(each.by, ["training"])}
    inside = {name for name in taken if within(name, ["compilegate"])}
    everywhere = {
        "compilegate.job.contract",
        "compilegate.job.errors",
        "compilegate.job.files",
    }
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
    assert circle(allowed) == []


def loads(level: int) -> dict[str, set[str]]:
    """Which names of the first `level` parts import which others when they are loaded."""
    edges: dict[str, set[str]] = defaultdict(set)
    for each in imports():
        by, of = (".".join(name.split(".")[:level]) for name in (each.by, each.of))
        below = by.count(".") == of.count(".") == level - 1
        if each.when_loaded and each.of in modules() and by != of and below:
            edges[by].add(of)
    return edges


@pytest.mark.slow
def test_no_modules_and_no_parts_of_a_room_import_one_another_in_a_circle() -> None:
    edges: dict[str, set[str]] = defaultdict(set)
    for each in imports():
        if each.when_loaded and each.of in modules() and each.of != each.by:
            edges[each.by].add(each.of)
    assert circle(edges) == []
    deepest = max(name.count(".") for name in modules()) + 1
    assert [circle(loads(level)) for level in range(2, deepest + 1)] == [[]] * (deepest - 1)


def users(of: str) -> list[str]:
    """The modules that import a module or library, wherever in their code."""
    return sorted({each.by for each in imports() if within(each.of, [of])})


def test_nothing_imports_a_room_at_the_edge_or_the_sagemaker_sdk() -> None:
    """The SDK's import costs six seconds."""
    for room in ("infra", "compilegate.cli"):
        assert [user for user in users(room) if not within(user, [room])] == []
    assert users("sagemaker") == []


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
    lock = (PROJECT / "containers/gate/requirements.lock").read_text(encoding="utf-8")
    image = {name.replace("-", "_") for name in re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE)}
    loaded = loaded_by(names, {"compilegate", *image})
    assert "scipy" in loaded
    bare = loaded_by([], ["compilegate"])
    assert loaded_by(["compilegate"], ["compilegate"]) - bare == {"compilegate"}


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
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = brought_by(Requirement(line).name for line in project["dependencies"])
    assert not brought & {"torch", "transformers", "sagemaker", "pyarrow", "aws_cdk"}
    commands = [name for name in modules() if within(name, ["compilegate.cli"])]
    working = ["compilegate.pipelines.compilation", "compilegate.account", "compilegate.local"]
    needed = [name for name in modules() if within(name, working)]
    loaded = loaded_by([*commands, *needed], {"compilegate", *brought})
    assert {"click", "boto3", "numpy"} <= loaded


def test_the_picture_shows_the_rules_each_room_above_all_that_it_imports() -> None:
    rules = tomllib.loads((PROJECT / "docs/architecture.toml").read_text(encoding="utf-8"))
    drawn = (PROJECT / "docs/architecture.svg").read_text(encoding="utf-8")
    assert drawn == picture(rules), "stale: run tools/draw_architecture.py"
    drawing = diagram(rules)
    rows = {name: drawing.row(name) for name in drawing.rooms}
    assert [each for each in drawing.arrows if rows[each.above] <= rows[each.below]] == []
    places = [(room["column"], rows[name]) for name, room in drawing.rooms.items()]
    assert len(set(places)) == len(places), "one room covers another"
    hidden = {name for name, room in rules["rooms"].items() if "column" not in room}
    others = {"compilegate", "compilegate.built_in", "compilegate.cli", "compilegate.infra"}
    assert hidden == others | {"compilegate.errors", "compilegate.declaration_errors"}


@pytest.mark.slow
def test_no_finished_room_exceeds_its_budget(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0, capsys.readouterr().err
    assert {room.name for room in measured()} == {each["name"] for each in budgets()["room"]}
