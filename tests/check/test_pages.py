"""Each rule has a page, and the examples on it are what the rule finds and what it leaves alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compilegate.check.checking import check_paths
from compilegate.check.findings import Finding, Severity
from compilegate.check.fixing.fixing import fix_paths
from compilegate.check.fixing.plans import PLANS
from compilegate.check.rules.table import BY_NAME, RULES

PAGES = Path(__file__).parents[2] / "docs" / "rules"
NAMES = sorted(page.stem for page in PAGES.glob("*.md"))


def example(name: str, heading: str) -> str:
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {heading}$.*?^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/rules/{name}.md has no example under `## {heading}`"
    return found[1]


def found_in(text: str, folder: Path, name: str) -> list[Finding]:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    checked = check_paths([script], BY_NAME[name].compilers)
    assert not checked.unread
    return list(checked.findings)


def test_every_page_is_about_a_rule():
    assert set(NAMES) <= set(BY_NAME)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_what_the_rule_is(name: str):
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# `{name}`\n")
    assert BY_NAME[name].severity.word in page.lower()


@pytest.mark.parametrize("name", NAMES)
def test_the_bad_example_is_found(name: str, tmp_path: Path):
    assert name in {finding.rule for finding in found_in(example(name, "Bad"), tmp_path, name)}


@pytest.mark.parametrize("name", NAMES)
def test_the_good_example_is_good(name: str, tmp_path: Path):
    findings = found_in(example(name, "Good"), tmp_path, name)
    grave = [each for each in findings if each.severity >= Severity.WARNING]
    assert [(each.rule, each.line, each.message) for each in grave] == []
    assert name not in {finding.rule for finding in findings}


@pytest.mark.parametrize("name", sorted(PLANS))
def test_a_fix_mends_the_bad_example(name: str, tmp_path: Path):
    script = tmp_path / "train.py"
    script.write_text(example(name, "Bad"), encoding="utf-8")
    for fixed in fix_paths([script]).fixed:
        fixed.path.write_bytes(fixed.after)
    assert name not in {finding.rule for finding in check_paths([script]).findings}
    assert fix_paths([script]).fixed == ()


def test_no_two_rules_share_a_name():
    assert len(BY_NAME) == len(RULES)
