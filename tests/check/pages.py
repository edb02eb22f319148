"""The scripts on a rule's page: those that it finds something in, and those that it does not."""

from __future__ import annotations

import re
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "rules"

_BLOCK = re.compile(r"^```(?:python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"# ([\w./-]+\.(?:py|txt))\n")


def scripts_under(page: str, heading: str) -> dict[str, str]:
    """The files under a heading. A block that begins with `# NAME.py` is that file."""
    section = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found: dict[str, str] = {}
    for block in _BLOCK.findall(section):
        named = _NAME.match(block)
        found[named[1] if named else "script.py"] = block
    return found


def write_scripts(folder: Path, scripts: dict[str, str]) -> None:
    """Write the files into a folder."""
    for name, text in scripts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
