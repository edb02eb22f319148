"""Each rule has a page: it says what the table says, and its examples are found or left alone."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from compilegate.check.checking import Checked, check_paths
from compilegate.check.fixes import FIXES
from compilegate.check.rules import BY_NAME, RULES
from compilegate.check.rules.base import Rule, Severity
from compilegate.rules import COMPILERS

PAGES = Path(__file__).parents[2] / "docs" / "rules"
LIST = PAGES.parent / "check.md"
_BLOCK = re.compile(r"^```(?:python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"# ([\w./-]+\.(?:py|txt))\n")


def head(rule: Rule) -> list[str]:
    """The lines of a page that are those of the table of rules."""
    named = ", ".join(f"`{each}`" for each in rule.compilers)
    concerns = "every compiler" if rule.compilers == COMPILERS else named
    return [
        f"# {rule.name}",
        f"{rule.severity.word.capitalize()}; concerns {concerns}.",
        f"**Why.** {rule.why}",
        f"**How to fix.** {rule.fix}",
        f"The page that says so: <{rule.page}>",
    ]


def projects(rule: Rule, heading: str) -> list[dict[str, str]]:
    """The files under a heading: those that begin with `# NAME.py` are one project, and each other
    one is a project of its own."""
    page = (PAGES / f"{rule.name}.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    blocks = [(_NAME.match(block), block) for block in _BLOCK.findall(section)]
    named = {match[1]: block for match, block in blocks if match}
    alone = [{"script.py": block} for match, block in blocks if not match]
    return [*alone, named] if named else alone


def checked(rule: Rule, heading: str, folder: Path) -> list[tuple[str, Checked]]:
    """Each project under a heading, checked for each compiler that the rule concerns."""
    for number, project in enumerate(projects(rule, heading)):
        for name, text in project.items():
            path = folder / str(number) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return [
        (f"{each.name} for {compiler}", check_paths([each], (compiler,)))
        for each in sorted(folder.iterdir())
        for compiler in rule.compilers
    ]


def test_each_rule_has_a_page_and_each_page_a_rule() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == {rule.name for rule in RULES}
    assert len(BY_NAME) == len(RULES)


def test_one_table_lists_the_rules() -> None:
    rows = ["| rule | severity | for | `--fix` | why |", "|---|---|---|---|---|"]
    for rule in RULES:
        compilers = "all" if rule.compilers == COMPILERS else ", ".join(rule.compilers)
        name, fixed = f"[`{rule.name}`](rules/{rule.name}.md)", "some" if rule.name in FIXES else ""
        rows.append(f"| {name} | {rule.severity.word} | {compilers} | {fixed} | {rule.why} |")
    begin, end = "<!-- rules: begin -->\n", "\n<!-- rules: end -->"
    page = LIST.read_text(encoding="utf-8")
    before, rest = page.split(begin, 1)
    expected = before + begin + "\n".join(rows) + end + rest.split(end.strip(), 1)[1]
    if os.environ.get("UPDATE_GOLDEN"):
        LIST.write_text(expected, encoding="utf-8")
        page = expected
    assert page == expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_page_says_what_the_table_says(rule: Rule) -> None:
    path = PAGES / f"{rule.name}.md"
    page = path.read_text(encoding="utf-8")
    if os.environ.get("UPDATE_GOLDEN"):
        for line in head(rule):
            begins = re.match(r"# |\w+; |\*\*.*?\*\*|The page that says so", line)
            pattern = rf"^{re.escape(begins[0]) if begins else line}.*$"
            pattern = r"^\w+; concerns .*$" if "; concerns " in line else pattern
            page = re.sub(pattern, lambda _, line=line: line, page, count=1, flags=re.MULTILINE)
        path.write_text(page, encoding="utf-8")
    assert [line for line in head(rule) if line not in page.splitlines()] == []
    for heading in ("**How to see it.**", "## Bad", "## Good", "## What it costs"):
        assert f"\n{heading}" in page


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_bad_examples_are_found(rule: Rule, tmp_path: Path) -> None:
    for which, each in checked(rule, "Bad", tmp_path):
        assert each.understood, which
        assert rule.name in {finding.rule for finding in each.findings}, which


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_good_examples_are_clean(rule: Rule, tmp_path: Path) -> None:
    for which, each in checked(rule, "Good", tmp_path):
        assert each.understood, which
        grave = [
            f"{finding.place}: {finding.message} [{finding.rule}]"
            for finding in each.findings
            if finding.rule == rule.name or finding.severity > Severity.NOTE
        ]
        assert (which, grave, each.unread) == (which, [], ())
