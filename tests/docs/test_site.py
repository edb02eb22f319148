"""The site: every page is in it, and nothing that a page refers to is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    site = tmp_path / "site"
    strictly = ["--quiet", "--fail-on-warning", "--keep-going"]
    places = ["-c", "docs/site", "-d", str(tmp_path / "doctrees"), "docs", str(site)]
    ended = subprocess.run(
        [sys.executable, "-m", "sphinx", *strictly, *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages <= {page.stem for page in site.glob("*.html")}
    assert "begin_step" in (site / "api.html").read_text(encoding="utf-8")
    assert "--cores-per-job" in (site / "commands.html").read_text(encoding="utf-8")
    assert "autocast" in (site / "searchindex.js").read_text(encoding="utf-8")
