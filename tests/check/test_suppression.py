"""Comments that ignore a finding, and what is said of the comments."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.check.checking import check_paths
from tests.check.writing import SLOW_STEP, written

LINE = "        total += loss.item()"


def findings(folder: Path, comment: str, before: str = "") -> tuple[list[str], list[str | None]]:
    script = SLOW_STEP.replace(LINE, f"{before}{LINE}{comment}")
    checked = check_paths([written(folder, train=script)], ("xla",))
    grave = [each.rule for each in checked.findings if each.rule.startswith(("item", "un"))]
    return grave, [each.suppressed for each in checked.suppressed]


def test_a_comment_with_a_reason_ignores_its_line(tmp_path: Path) -> None:
    comment = "  # compilegate: ignore[item-in-step] it decides when to stop"
    assert findings(tmp_path, comment) == ([], ["it decides when to stop"])


def test_a_comment_above_ignores_the_next_line(tmp_path: Path) -> None:
    above = "        # compilegate: ignore[item-in-step, print-in-step] it decides\n"
    assert findings(tmp_path, "", above) == ([], ["it decides"])


def test_another_rule_is_not_ignored(tmp_path: Path) -> None:
    comment = "  # compilegate: ignore[print-in-step] no reason"
    assert findings(tmp_path, comment) == (["item-in-step"], [])


@pytest.mark.parametrize("comment", ["ignore", "ignore[]", "ignore[item-in-stp] it decides"])
def test_a_comment_that_names_no_rule_ignores_nothing_and_is_told(
    comment: str, tmp_path: Path
) -> None:
    assert findings(tmp_path, f"  # compilegate: {comment}") == (
        ["item-in-step", "unknown-rule"],
        [],
    )


def test_a_comment_without_a_reason_ignores_and_is_told(tmp_path: Path) -> None:
    comment = "  # compilegate: ignore[item-in-step]"
    assert findings(tmp_path, comment) == (["unexplained-ignore"], [""])


def test_text_that_looks_like_a_comment_is_none(tmp_path: Path) -> None:
    script = 'HELP = """\n# compilegate: ignore[nothing]\n"""\n'
    assert check_paths([written(tmp_path, train=script)]).findings == ()


def test_a_call_over_several_lines_is_ignored_at_any_of_them(tmp_path: Path) -> None:
    script = SLOW_STEP.replace(
        LINE,
        "        total = max(\n            total,  # compilegate: ignore[item-in-step] it decides\n"
        "            loss.item(),\n        )",
    )
    checked = check_paths([written(tmp_path, train=script)], ("xla",))
    assert [each.rule for each in checked.suppressed] == ["item-in-step"]
