"""Every rule has a page, whose bad example it finds and whose good example is clean."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.check.checking import check_paths
from compilegate.check.findings import Severity
from compilegate.check.rules.rule import Rule
from compilegate.check.rules.table import BY_NAME, RULES
from tests.check.pages import PAGES, scripts_under, write_scripts


def test_each_rule_has_a_page_and_each_page_a_rule() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == {rule.name for rule in RULES}


def test_no_two_rules_have_one_name() -> None:
    assert len(BY_NAME) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_page_says_what_the_rule_says(rule: Rule) -> None:
    page = (PAGES / f"{rule.name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {rule.name}\n")
    assert [each for each in (rule.why, rule.fix, rule.page) if each not in page] == []


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_bad_example_is_found(rule: Rule, tmp_path: Path) -> None:
    page = (PAGES / f"{rule.name}.md").read_text(encoding="utf-8")
    write_scripts(tmp_path, scripts_under(page, "Bad"))
    for compiler in rule.compilers:
        checked = check_paths([tmp_path], (compiler,))
        assert rule.name in {finding.rule for finding in checked.findings}, compiler


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_good_example_is_clean(rule: Rule, tmp_path: Path) -> None:
    page = (PAGES / f"{rule.name}.md").read_text(encoding="utf-8")
    write_scripts(tmp_path, scripts_under(page, "Good"))
    for compiler in rule.compilers:
        checked = check_paths([tmp_path], (compiler,))
        grave = [
            f"{finding.place}: {finding.message} [{finding.rule}]"
            for finding in checked.findings
            if finding.rule == rule.name or finding.severity > Severity.NOTE
        ]
        assert (compiler, grave, checked.unread) == (compiler, [], ())
