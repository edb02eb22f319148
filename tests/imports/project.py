"""The project's modules and what each imports, read from the code without running it."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PROJECT = Path(__file__).parents[2]

SOURCES = {
    "compilegate.infra": "infra",
    "compilegate.pipelines": "pipelines",
    "compilegate": "compilegate",
    "training": "training",
}
"""By import name, the folder that holds it; a folder inside another comes first."""


@dataclass(frozen=True)
class Room:
    """A room of `docs/architecture.toml`."""

    imports: tuple[str, ...]
    libraries: tuple[str, ...]


@cache
def rooms() -> Mapping[str, Room]:
    """Every room by its import name."""
    declared = tomllib.loads((PROJECT / "docs/architecture.toml").read_text(encoding="utf-8"))
    everywhere = declared["everywhere"]
    return {
        name: Room(
            (*room["imports"], *([] if room.get("alone") else everywhere)),
            tuple(room["libraries"]),
        )
        for name, room in declared["rooms"].items()
    }


@cache
def modules() -> Mapping[str, Path]:
    """Every module by its import name; what a link leads to has the name of its own folder."""
    found: dict[str, Path] = {}
    taken: set[Path] = set()
    for name, folder in SOURCES.items():
        for path in sorted((PROJECT / folder).rglob("*.py")):
            if path.resolve() in taken or path.resolve() != path:
                continue
            taken.add(path)
            parts = path.relative_to(PROJECT / folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join((name, *parts))] = path
    return found


@dataclass(frozen=True)
class Import:
    """One import of one module."""

    by: str
    of: str
    """A module of this project where it is one, and otherwise the name as it is written."""
    when_loaded: bool
    """Whether it happens when the module is loaded; not in a function, nor for types alone."""


@cache
def imports() -> tuple[Import, ...]:
    """Every import of every module."""
    return tuple(
        found
        for name, path in modules().items()
        for found in _imports(name, ast.parse(path.read_text(encoding="utf-8")), when_loaded=True)
    )


def _imports(module: str, tree: ast.AST, *, when_loaded: bool) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(module, alias.name, when_loaded) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = _absolute(module, node)
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                yield Import(module, whole if whole in modules() else source, when_loaded)
        else:
            later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
                isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            )
            yield from _imports(module, node, when_loaded=when_loaded and not later)


def _absolute(module: str, node: ast.ImportFrom) -> str:
    if node.level == 0:
        assert node.module is not None
        return node.module
    parts = module.split(".")
    up = node.level - (1 if modules()[module].name == "__init__.py" else 0)
    return ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])


def within(name: str, places: Iterable[str]) -> bool:
    """Whether a module is one of these places or lies in one."""
    return any(name == place or name.startswith(f"{place}.") for place in places)


def room_of(module: str) -> str:
    """The innermost room that a module lies in; `compilegate` alone has no other in it."""
    held = [name for name in rooms() if within(module, [name])]
    room = max(held, key=len, default="")
    placed = room != "" and (room != "compilegate" or module == "compilegate")
    assert placed, f"{module} lies in no room: say in docs/architecture.toml what it may import"
    return room


def circle(edges: Mapping[str, set[str]]) -> list[str]:
    """The names of one circle; empty where there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
