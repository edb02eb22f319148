"""Names, docstrings, messages and pages are plain English: none has a word of the old dialect.

`old_dialect.toml` lists the words.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FOLDERS = ("compilegate", "pipelines", "training", "infra", "benchmarks", "tools", "workloads")
DIALECT = tomllib.loads(Path(__file__).with_name("old_dialect.toml").read_text(encoding="utf-8"))
PHRASES = [re.compile(phrase) for phrase in DIALECT["phrases"]]
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def definitions(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Every name that a module gives, and whether it is a class's or a function's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, True
        elif isinstance(node, ast.arg):
            yield node.arg, False
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr, False


def of_the_dialect(name: str, *, defined: bool) -> bool:
    """Whether a name is or holds a word of the list."""
    words = [word.lower() for word in _WORD.findall(name)]
    whole = {*DIALECT["whole_names"], *(DIALECT["whole_definitions"] if defined else ())}
    return bool({*words} & {*DIALECT["in_names"]}) or "_".join(words) in whole


def texts(tree: ast.AST) -> Iterator[str]:
    """Every string of a module on one line; an f-string is one, with a gap for each value."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [each for each in node.values if isinstance(each, ast.Constant)]
            inside |= {id(each) for each in parts}
            yield " ".join(" {} ".join(str(each.value) for each in parts).split())
        elif isinstance(node, ast.Constant) and id(node) not in inside:
            yield " ".join(str(node.value).split()) if isinstance(node.value, str) else ""


def docstrings(tree: ast.AST) -> Iterator[str]:
    """Every string that stands alone as a statement, below what it documents or inside it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value).strip()


def phrases(text: str) -> list[str]:
    return [found[0] for phrase in PHRASES if (found := phrase.search(text))]


def found_in(code: str) -> list[str]:
    """What a module has of the dialect: names, phrases, and docstrings that begin with Of."""
    tree = ast.parse(code)
    names = {name for name, defined in definitions(tree) if of_the_dialect(name, defined=defined)}
    borrowed = {phrase for text in texts(tree) for phrase in phrases(text)}
    of = {text.partition("\n")[0] for text in docstrings(tree) if text.startswith("Of ")}
    return sorted(names) + sorted(borrowed) + sorted(of)


def places() -> Iterator[str]:
    """Every place of the product that has a word of the dialect."""
    for folder in FOLDERS:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            place = path.relative_to(PROJECT).as_posix()
            names = [path.stem, *path.relative_to(PROJECT).parts[:-1]]
            if any(of_the_dialect(name, defined=True) for name in names):
                yield f"{place}: the path"
            yield from (f"{place}: {each}" for each in found_in(path.read_text(encoding="utf-8")))
    for page in (PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *PROJECT.glob("docs/**/*.md")):
        text = " ".join(page.read_text(encoding="utf-8").split())
        yield from (f"{page.relative_to(PROJECT).as_posix()}: {each}" for each in phrases(text))


@pytest.mark.slow
def test_the_product_has_no_word_of_the_old_dialect() -> None:
    assert sorted(places()) == []


def test_every_kind_is_found_and_ordinary_english_is_not() -> None:
    code = '''
class Told:
    """Of each job."""
    files_asked = 3
def kept(job, lent_state):
    closing = print("it can be\\n followed no more; try again")
'''
    assert found_in(code) == [
        *("Told", "closing", "files_asked", "kept", "lent_state"),
        *("d no more;", "followed no more", "Of each job."),
    ]
    ordinary = '''
def kept_rows(origin, closing_time):
    """The user said so and was asked to close it; the rest is kept elsewhere."""
'''
    assert found_in(ordinary) == []
