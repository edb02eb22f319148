"""The site is built from every page, and the pages that `make shipped` leaves out hold."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.shipped.clone import ROOT, Place
from tests.shipped.pages import blocks, follow

pytestmark = pytest.mark.slow

PROGRAMS = str(Path(sys.executable).parent)
ENVIRONMENT: Mapping[str, str] = {
    **os.environ,
    "PATH": os.pathsep.join([PROGRAMS, os.environ["PATH"]]),
    "PYTHONPATH": str(ROOT),
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "1",
}
TUTORIALS = [
    ("own-script", "registered-model"),  # the second continues where the first ends
    ("callbacks",),
    ("check",),
    ("inconclusive",),
    ("miscompilations",),
    ("upgrade",),
]


@pytest.mark.long
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    site = tmp_path / "site"
    strictly = ["--quiet", "--fail-on-warning", "--keep-going"]
    places = ["-c", "docs/site", "-d", str(tmp_path / "doctrees"), "docs", str(site)]
    command = [sys.executable, "-m", "sphinx", *strictly, *places]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages <= {page.stem for page in site.glob("*.html")}
    assert "begin_step" in (site / "api.html").read_text(encoding="utf-8")
    assert "--cores-per-job" in (site / "commands.html").read_text(encoding="utf-8")
    assert "autocast" in (site / "searchindex.js").read_text(encoding="utf-8")


# One took nine minutes of a whole run, and where the machine is busy its comparisons are repeated.
@pytest.mark.long
@pytest.mark.timeout(2700)
@pytest.mark.parametrize("pages", TUTORIALS, ids=lambda pages: pages[-1])
def test_a_tutorial_holds_line_by_line(pages: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    shutil.copytree(ROOT / "containers", tmp_path / "containers")
    for page in pages:
        assert follow(f"docs/{page}.md", tmp_path, Place(tmp_path, ENVIRONMENT).run) >= 2


def test_the_arms_of_an_upgrade_differ_in_the_image_alone() -> None:
    """The tutorial validates, compiles and judges the example."""
    example = (ROOT / "docs" / "examples" / "upgrade.toml").read_text(encoding="utf-8")
    arms = tomllib.loads(example)["arms"]
    shown = next(block for block in blocks("docs/upgrade.md") if block.language == "toml")
    assert tomllib.loads(shown.text)["arms"] == arms
    today, later = (dict(arm) for arm in arms.values())
    assert today.pop("image") != later.pop("image")
    assert today == later


@pytest.mark.long
def test_the_first_fifteen_lines_of_the_workload_page_run_to_a_verdict(tmp_path: Path) -> None:
    first = next(block for block in blocks("docs/workload.md") if block.language == "toml")
    assert first.path == "workloads/first.toml"
    assert len(first.text.splitlines()) <= 15
    (tmp_path / "workloads").mkdir()
    (tmp_path / first.path).write_text(first.text, encoding="utf-8")
    place = Place(tmp_path, ENVIRONMENT)
    assert "valid: 2 arms, " in place.run("compilegate validate first")
    printed = place.run("compilegate run first")
    decided = r"^decided: Release .*\bRegistered: first/1, Pending"
    assert re.search(decided, printed, re.MULTILINE), printed
