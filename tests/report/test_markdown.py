"""The Markdown report, against a golden file."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

from compilegate.report import render_markdown

GOLDEN = Path(__file__).parent / "golden" / "report.md"


def test_the_markdown_of_a_fixed_verdict_is_the_golden_one(verdict, observations):
    """UPDATE_GOLDEN=1 writes it. Every row of a table has as many cells as the row above, though
    the verdict's text holds a pipe."""
    rendered = render_markdown(verdict, observations)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(rendered, encoding="utf-8")
    assert rendered == GOLDEN.read_text(encoding="utf-8")
    lines = rendered.replace("\\|", "").splitlines()
    for above, line in pairwise(lines):
        assert above[:1] != "|" or line[:1] != "|" or above.count("|") == line.count("|")
