"""Write the reference of a workload's file, and its schema, from the types that read it.

.venv/bin/python tools/write_reference.py
"""

from __future__ import annotations

from pathlib import Path

from compilegate.workload.reference import reference_page
from compilegate.workload.schema import schema_text, workload_schema

DOCS = Path(__file__).parents[1] / "docs"


def pages() -> dict[Path, str]:
    """Every file that is made, and what it holds."""
    return {
        DOCS / "workload.schema.json": schema_text(),
        DOCS / "workload-reference.md": reference_page(workload_schema()),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
