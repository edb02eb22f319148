"""Comments that ignore a finding, and what is said of the comments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.folders import SLOW_STEP, check

LINE = "        total += loss.item()"
IGNORE = "# compilegate: ignore"


@pytest.mark.parametrize(
    ("line", "findings", "reasons"),
    [
        (f"{LINE}  {IGNORE}[sync-in-step] it stops", [], ["it stops"]),
        (f"        {IGNORE}[sync-in-step, too-often] it stops\n{LINE}", [], ["it stops"]),
        (f"{LINE}  {IGNORE}[too-often] no reason", ["sync-in-step"], []),
        (f"{LINE}  {IGNORE}", ["sync-in-step", "unknown-rule"], []),
        (f"{LINE}  {IGNORE}[]", ["sync-in-step", "unknown-rule"], []),
        (f"{LINE}  {IGNORE}[sync-in-stp] it stops", ["sync-in-step", "unknown-rule"], []),
        (f"{LINE}  {IGNORE}[sync-in-step]", ["unexplained-ignore"], [""]),
        (f"        total = max(\n            total,  {IGNORE}[sync-in-step] it stops\n"
         "            loss.item(),\n        )", [], ["it stops"]),
        (f'{LINE}\n    help = """\n{IGNORE}[nothing]\n"""', ["sync-in-step"], []),
    ],
)  # fmt: skip
def test_a_comment_ignores_the_rules_it_names_with_a_reason(
    line: str, findings: list[str], reasons: list[str], tmp_path: Path
) -> None:
    checked = check(tmp_path, "xla", train=SLOW_STEP.replace(LINE, line))
    rules = [each.rule for each in checked.findings if each.rule.startswith(("sync", "un"))]
    assert (rules, [each.suppressed for each in checked.suppressed]) == (findings, reasons)
