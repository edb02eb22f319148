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
from tools.rooms import commands, options

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
    *("infra/images.lock.toml", "containers/mine", "containers/next", "compilegate/workloads"),
    "workloads/upgrade.toml",
    *("workloads/reviews.toml", "workloads/marks", "workloads/marks.toml", "workloads/marks-data"),
    *("workloads/NAME.toml", "workloads/NAME", "workloads/WORKLOAD"),
    "workloads/workload.schema.json",
}
"""Names in the bucket, and placeholders."""
OF_OTHER_TOOLS = {"--NAME", "--help", "--import-existing-resources", "--master_port", "--seed"}

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def code_of(page: Path) -> list[str]:
    """The page's code: blocks, and spans in one line each, without their backticks."""
    found = CODE.findall(page.read_text(encoding="utf-8"))
    return [
        code.strip("`") if code.startswith("```") else " ".join(code.strip("`").split())
        for code in found
    ]


@pytest.mark.parametrize("page", [*PAGES, PROJECT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_every_path_and_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    # What a tutorial has its reader save, without suffixes.
    saved = [path.rsplit(".", 1)[0] for path in re.findall(r"^```\w+ (\S+)$", text, re.MULTILINE)]
    absent = (*saved, *(f"{made}/" for made in MADE))
    named = {path for code in code_of(page) for path in PATH.findall(code)} - MADE
    missing = [path for path in named if not path.startswith(absent)]
    assert [path for path in missing if not (PROJECT / path).exists()] == []
    for target, wanted in LINK.findall(re.sub(r"`[^`\n]*`", "", text)):  # a pattern is no link
        if not target.startswith("http"):
            place = page.parent / target if target else page
            assert place.exists(), target
            assert not wanted or wanted in anchors(place), f"{target}#{wanted}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@every_page
def test_every_module_attribute_and_make_target_exists(page: Path) -> None:
    named = {name for code in code_of(page) for name in MODULE.findall(code)}
    assert sorted(name for name in named if not exists(name)) == []
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    words = [word for code in code_of(page) for word in pairwise(code.split())]
    assert {target for make, target in words if make == "make"} <= targets


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


def flags(*found: click.Option) -> set[str]:
    return {flag for each in found for flag in (*each.opts, *each.secondary_opts)}


@every_page
def test_every_command_and_option_exists(page: Path) -> None:
    own = [each for each in main.params if isinstance(each, click.Option)]
    for words in command_lines(page):
        group: click.Command = main
        allowed = {"--help", *flags(*own)}
        for word in words:
            name = word.partition("=")[0]
            if name.startswith("-"):
                assert name in allowed, words
            elif isinstance(group, click.Group):
                found = group.get_command(click.Context(group), name)
                assert found is not None, words
                group = found
                allowed |= flags(*(it for it in found.params if isinstance(it, click.Option)))
    alone = {code.split()[0].partition("=")[0] for code in code_of(page) if code.startswith("--")}
    assert sorted(alone - flags(*options()) - OF_OTHER_TOOLS) == []


def test_the_catalogs_files_are_named_and_the_pages_name_enough_to_mean_something() -> None:
    page = (PROJECT / "docs/workload.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+\.(?:csv|json|toml))`", page))
    assert named == {path.name for path in (PROJECT / "compilegate/catalog/facts").iterdir()}
    code = [code for page in PAGES for code in code_of(page)]
    assert sum(len(PATH.findall(each)) for each in code) > 30
    assert sum(len(MODULE.findall(each)) for each in code) > 5
    assert sum(1 for page in PAGES for _ in command_lines(page)) > 30
    assert len(list(commands())) > 10
    assert not exists("compilegate.job.evidense")
    assert not exists("compilegate.job.evidence.nothing")
