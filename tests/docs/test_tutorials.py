"""The tutorials that `make shipped` leaves out, line by line."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.shipped.clone import ROOT, Place
from tests.shipped.pages import follow

# One took nine minutes of a whole run, and where the machine is busy its comparisons are repeated.
pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(2700)]

TUTORIALS = [
    ("own-script", "registered-model"),  # the second goes on where the first ends
    ("callbacks",),
    ("check",),
    ("inconclusive",),
    ("miscompilations",),
    ("upgrade",),
]


@pytest.mark.parametrize("pages", TUTORIALS, ids=lambda pages: pages[-1])
def test_a_tutorial_holds_line_by_line(pages: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    shutil.copytree(ROOT / "containers", tmp_path / "containers")
    programs = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([programs, os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
    }
    place = Place(tmp_path, environment)
    for page in pages:
        assert follow(f"docs/{page}.md", tmp_path, place.run) >= 2
