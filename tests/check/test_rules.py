"""Each rule: its row in the table, its page, and the lines in which it finds something.

A file of scripts/ holds the rules of a module of `check/rules`, each after `# #### RULE`. A script
begins at `# ==== fires: WHAT` or `# ==== clean: WHAT`, with `[COMPILER, ...]` ahead of the colon if
it is not for all compilers of it. A line in which the rule finds something ends with
`# <- RULE`. `# ---- NAME.py` begins another file. What stands before the first script of a rule
begins each of them. `after OWNER/NAME PATH` names the public script that one is a short version of.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compilegate.advice.rules import rules as advice_rules
from compilegate.check.checking import CheckResult, check_paths
from compilegate.check.fixes import FIXES
from compilegate.diagnose import profile
from compilegate.job.evidence import record
from compilegate.rules import COMPILERS, Rule, Severity, table

RULES = table().rules
MEASURED = table().measured
each_rule = pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(name).write_text(text, encoding="utf-8")
    return folder


# The table.


def test_each_rule_bears_on_one_consideration_and_says_what_to_do_and_why() -> None:
    bearing = [name for each in advice_rules().considerations for name in each.rules]
    assert sorted(bearing) == sorted(RULES)
    for each in RULES.values():
        assert each.compilers
        assert set(each.compilers) <= set(COMPILERS)
        assert each.why.endswith(".")
        assert each.fix.endswith(".")
        assert each.page.startswith("https://")


def test_profiles_and_jobs_have_a_remedy_for_each_thing_they_find_and_point_to_rules() -> None:
    assert set(MEASURED) == {*profile.WORTH_NAMING, *profile.KINDS}
    causes = {rule for each in MEASURED.values() for rule in each.rules}
    assert causes | set(record.RULES.values()) <= set(RULES)
    remedies = [text for x in MEASURED.values() for text in (x.remedy, x.compiled_remedy)]
    assert all(text.endswith(".") for text in remedies)


# The scripts.

SCRIPTS = Path(__file__).with_name("scripts")
RULE = re.compile(r"^# #### (\S+)\n", re.MULTILINE)
HEAD = re.compile(r"^# ==== (fires|clean)(?: \[(.+)\])?: (.+)\n", re.MULTILINE)
FILE = re.compile(r"^# ---- (\S+)\n", re.MULTILINE)


@dataclass(frozen=True)
class Golden:
    """One script."""

    rule: str
    fires: bool
    compilers: tuple[str, ...]
    what: str
    files: dict[str, str]

    @property
    def marked(self) -> set[tuple[str, int]]:
        """The files and lines in which the rule finds something."""
        return {
            (name, number)
            for name, text in self.files.items()
            for number, line in enumerate(text.splitlines(), start=1)
            if line.endswith(f"# <- {self.rule}")
        }


def golden_scripts(path: Path) -> Iterator[Golden]:
    _, *sections = RULE.split(path.read_text(encoding="utf-8"))
    for rule, section in zip(sections[::2], sections[1::2], strict=True):
        imports, *parts = HEAD.split(section)
        for sort, compilers, what, text in zip(*(parts[at::4] for at in range(4)), strict=True):
            names = compilers.split(", ") if compilers else RULES[rule].compilers
            named = ["train.py", *FILE.split(imports + text)]
            files = dict(zip(named[::2], named[1::2], strict=True))
            yield Golden(rule, sort == "fires", tuple(names), what, files)


GOLDEN = [each for path in sorted(SCRIPTS.glob("*.py")) for each in golden_scripts(path)]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda each: f"{each.rule}: {each.what}")
def test_a_rule_finds_the_marked_lines_and_no_others(golden: Golden, tmp_path: Path) -> None:
    assert bool(golden.marked) == golden.fires
    for compiler in golden.compilers:
        checked = check_paths([written(tmp_path, golden.files)], (compiler,))
        own = (each for each in checked.findings if each.rule == golden.rule)
        places = {(each.path.relative_to(tmp_path).as_posix(), each.line) for each in own}
        assert (compiler, places, checked.unread) == (compiler, golden.marked, ())


def test_each_rule_has_scripts_of_both_sorts_after_public_ones() -> None:
    public = {(each.rule, each.fires) for each in GOLDEN if ", after " in each.what}
    assert public == {(name, sort) for name in RULES for sort in (True, False)}


# The pages.

PAGES = Path(__file__).parents[2] / "docs" / "rules"
LIST = PAGES.parent / "check.md"
_BLOCK = re.compile(r"^```(?:python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"# ([\w./-]+\.(?:py|txt))\n")


def head(rule: Rule) -> dict[str, str]:
    """The lines of a page that are those of the table of rules, by the pattern of their line."""
    named = ", ".join(f"`{each}`" for each in rule.compilers)
    concerns = "every compiler" if rule.compilers == COMPILERS else named
    return {
        r"# .*": f"# {rule.name}",
        r"\w+; concerns .*": f"{rule.severity.word.capitalize()}; concerns {concerns}.",
        r"\*\*Why\.\*\* .*": f"**Why.** {rule.why}",
        r"\*\*How to fix\.\*\* .*": f"**How to fix.** {rule.fix}",
        r"The page that says so: .*": f"The page that says so: <{rule.page}>",
    }


def checked(rule: Rule, heading: str, folder: Path) -> Iterator[CheckResult]:
    """The files under a heading, for each compiler that the rule concerns: those that begin with
    `# NAME.py` are one project, and each other one is a project of its own."""
    page = (PAGES / f"{rule.name}.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    blocks = [(_NAME.match(block), block) for block in _BLOCK.findall(section)]
    named = {match[1]: block for match, block in blocks if match}
    alone = [{"script.py": block} for match, block in blocks if not match]
    for number, project in enumerate([*alone, named] if named else alone):
        for compiler in rule.compilers:
            yield check_paths([written(folder / str(number), project)], (compiler,))


def test_each_page_has_a_rule() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == set(RULES)


def test_one_table_lists_the_rules() -> None:
    rows = ["| rule | severity | for | `--fix` | why |", "|---|---|---|---|---|"]
    for rule in RULES.values():
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


@each_rule
def test_the_page_says_what_the_table_says(rule: Rule) -> None:
    path = PAGES / f"{rule.name}.md"
    page = path.read_text(encoding="utf-8")
    if os.environ.get("UPDATE_GOLDEN"):
        for pattern, line in head(rule).items():
            page = re.sub(f"(?m)^{pattern}$", lambda _, line=line: line, page, count=1)
        path.write_text(page, encoding="utf-8")
    assert set(head(rule).values()) <= set(page.splitlines())
    for heading in ("**How to see it.**", "## Bad", "## Good", "## What it costs"):
        assert f"\n{heading}" in page


@pytest.mark.slow
@each_rule
def test_the_bad_examples_are_found_and_the_good_ones_are_clean(rule: Rule, tmp_path: Path) -> None:
    for each in checked(rule, "Bad", tmp_path / "bad"):
        assert each.understood, each.compilers
        assert rule.name in {finding.rule for finding in each.findings}, each.compilers
    for each in checked(rule, "Good", tmp_path / "good"):
        grave = [x for x in each.findings if x.rule == rule.name or x.severity > Severity.NOTE]
        assert each.understood, each.compilers
        assert (each.compilers, grave, each.unread) == (each.compilers, [], ())
