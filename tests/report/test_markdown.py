"""The Markdown report, against a golden file."""

from __future__ import annotations

import os
from pathlib import Path

from compilegate.report import render_markdown

GOLDEN = Path(__file__).parent / "golden" / "report.md"


def test_the_markdown_of_a_fixed_verdict_is_the_golden_one(verdict, observations):
    """UPDATE_GOLDEN=1 writes it."""
    rendered = render_markdown(verdict, observations)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(rendered, encoding="utf-8")
    assert rendered == GOLDEN.read_text(encoding="utf-8")


def test_every_row_of_a_table_has_as_many_cells_as_its_header(verdict, observations):
    """The verdict's text holds a pipe, which must not become a cell."""
    width, rows = None, 0
    for line in render_markdown(verdict, observations).splitlines():
        if not line.startswith("|"):
            width = None
            continue
        cells = line.replace("\\|", "").count("|")
        assert width in (None, cells)
        width, rows = cells, rows + 1
    assert rows > 3
