"""What README and the guides name exists: paths, links, modules, commands, make targets."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import pytest

from compilegate.cli import main

PROJECT = Path(__file__).parents[2]
GUIDES = [PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
DOCS = PROJECT / "docs"
PAGES = [*GUIDES, *sorted(DOCS.glob("*.md")), *sorted((DOCS / "decisions").glob("*.md"))]
TOP = "compilegate|pipelines|training|infra|containers|tests|workloads|benchmarks|docs|tools"
PATH = re.compile(rf"(?<![\w./-])((?:{TOP}|\.github)/[\w./-]*[\w/])(?![\w*{{])")
MODULE = re.compile(r"(?<![\w./-])((?:compilegate|training)(?:\.[A-Za-z_]\w*)+)")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
CODE = re.compile(r"```.*?```|`[^`]+`", re.DOTALL)
MADE = {
    "infra/images.lock.toml",
    "containers/mine",
    "workloads/reviews.toml",
    "workloads/marks",
    "workloads/marks.toml",
    "workloads/marks-data",
    "workloads/NAME.toml",
    "workloads/NAME",
    "workloads/WORKLOAD",
    "compilegate/workloads",
    "workloads/workload.schema.json",
}
"""Names in the bucket, and placeholders."""
OF_OTHER_TOOLS = {"--NAME", "--help", "--import-existing-resources", "--master_port", "--seed"}


def pages() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def code_of(page: Path) -> list[str]:
    """The page's code: blocks, and spans in one line each, without their backticks."""
    found = CODE.findall(page.read_text(encoding="utf-8"))
    return [
        code.strip("`") if code.startswith("```") else " ".join(code.strip("`").split())
        for code in found
    ]


def anchor(heading: str) -> str:
    """A heading's anchor as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def is_placeholder(path: str) -> bool:
    return any(path == made or path.startswith(f"{made}/") for made in MADE)


def saved_by_the_reader(page: Path) -> list[str]:
    """Paths of files that a tutorial has its reader save, without their suffixes."""
    saved = re.findall(r"^```\w+ (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [path.rsplit(".", 1)[0] for path in saved]


@pages()
def test_every_path_exists(page: Path) -> None:
    named = {path for code in code_of(page) for path in PATH.findall(code)}
    saved = tuple(saved_by_the_reader(page))
    missing = [
        path
        for path in named
        if not is_placeholder(path)
        and not (saved and path.startswith(saved))
        and not (PROJECT / path).exists()
    ]
    assert sorted(missing) == []


@pytest.mark.parametrize("page", [*PAGES, PROJECT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    written = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))  # a pattern is no link
    for target, wanted in LINK.findall(written):
        if target.startswith("http"):
            continue
        place = page.parent / target if target else page
        if not place.exists():
            broken.append(target)
        elif wanted:
            headings = re.findall(r"^#+ (.*)", place.read_text(encoding="utf-8"), re.MULTILINE)
            if wanted not in {anchor(heading) for heading in headings}:
                broken.append(f"{target}#{wanted}")
    assert broken == []


@pages()
def test_every_module_and_its_attributes_exist(page: Path) -> None:
    named = {name for code in code_of(page) for name in MODULE.findall(code)}
    assert sorted(name for name in named if not exists(name)) == []


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    module, _, attribute = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return module != "" and hasattr(importlib.import_module(module), attribute)
    return True


def command_lines(page: Path) -> Iterator[list[str]]:
    """The words after each `compilegate` that begins a line of code."""
    for code in code_of(page):
        for line in code.splitlines():
            if line.startswith("compilegate ") and " = " not in line:
                yield shlex.split(line.replace("[", " ").replace("]", " "), comments=True)[1:]


@pages()
def test_every_command_and_option_exists(page: Path) -> None:
    unknown = []
    for words in command_lines(page):
        group: click.Command = main
        allowed = {"--help", *options_of(main)}
        for word in words:
            name = word.partition("=")[0]
            if name.startswith("-"):
                if name not in allowed:
                    unknown.append(f"{' '.join(words)}: {name}")
            elif isinstance(group, click.Group):
                found = group.get_command(click.Context(group), name)
                if found is None:
                    unknown.append(f"{' '.join(words)}: {name}")
                    break
                group = found or group
                allowed |= set(options_of(group))
    assert unknown == []


@pages()
def test_every_option_that_is_mentioned_alone_belongs_to_some_command(page: Path) -> None:
    known = {option for command in every_command() for option in options_of(command)}
    named = {code.split()[0].partition("=")[0] for code in code_of(page) if code.startswith("--")}
    assert sorted(named - known - OF_OTHER_TOOLS) == []


def every_command(command: click.Command = main) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from every_command(found)


def options_of(command: click.Command) -> list[str]:
    return [
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    ]


@pages()
def test_every_make_target_exists(page: Path) -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    words = [word for code in code_of(page) for word in pairwise(code.split())]
    assert {target for make, target in words if make == "make"} <= targets


def test_the_catalog_s_files_exist() -> None:
    page = (PROJECT / "docs/catalog.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+\.(?:csv|json|toml))`", page))
    assert named == {path.name for path in (PROJECT / "compilegate/catalog/facts").iterdir()}


def test_the_pages_name_enough_for_these_tests_to_mean_something() -> None:
    code = [code for page in PAGES for code in code_of(page)]
    assert sum(len(PATH.findall(each)) for each in code) > 30
    assert sum(len(MODULE.findall(each)) for each in code) > 5
    assert sum(1 for page in PAGES for _ in command_lines(page)) > 30


@pytest.mark.parametrize("name", ["compilegate.job.evidense", "compilegate.job.evidence.nothing"])
def test_a_name_that_nobody_has_does_not_exist(name: str) -> None:
    assert not exists(name)
