"""docs/check-rules.md lists every rule as it is."""

from __future__ import annotations

import os
from pathlib import Path

from compilegate.check.fixing.plans import PLANS
from compilegate.check.rules.rule import Rule
from compilegate.check.rules.table import RULES
from compilegate.rules import COMPILERS

PAGE = Path(__file__).parents[2] / "docs" / "check-rules.md"
BEGIN, END = "<!-- rules: begin -->", "<!-- rules: end -->"


def row(rule: Rule) -> str:
    linked = (PAGE.parent / "rules" / f"{rule.name}.md").exists()
    name = f"[`{rule.name}`](rules/{rule.name}.md)" if linked else f"`{rule.name}`"
    compilers = "all" if set(rule.compilers) == set(COMPILERS) else ", ".join(rule.compilers)
    fixed = "yes" if rule.name in PLANS else ""
    return f"| {name} | {rule.severity.word} | {compilers} | {fixed} | {rule.why} |"


def test_the_page_lists_the_rules():
    expected = "\n".join(
        [
            BEGIN,
            "| rule | severity | for | `--fix` | why |",
            "|---|---|---|---|---|",
            *(row(rule) for rule in sorted(RULES, key=lambda each: each.name)),
            END,
        ]
    )
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(before + expected + after, encoding="utf-8")
        page = PAGE.read_text(encoding="utf-8")
    assert page[page.index(BEGIN) : page.index(END) + len(END)] == expected
