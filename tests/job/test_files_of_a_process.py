"""What a process has for itself is there to its very end, and gone afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import atexit, os, sys
from pathlib import Path
from compilegate.job import start
from compilegate.job.files import remove_at_end

folder, file = Path(sys.argv[1]), Path(sys.argv[2])

@atexit.register  # as a job that is finished when its script ends
def finishing():
    print(folder.joinpath("kernel.so").is_file(), file.is_file())

folder.mkdir()
(folder / "kernel.so").write_text("")
file.write_text("")
for path in (folder, file, folder.parent / "absent"):
    remove_at_end(str(path))
"""


def test_what_a_job_looks_at_when_its_script_ends_is_removed_after_that(tmp_path: Path) -> None:
    folder, file = tmp_path / "cache", tmp_path / "causes.txt"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder, file], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("True True\n", "")
    assert not folder.exists()
    assert not file.exists()
