"""What a process has for itself is there to its very end, and gone afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import atexit, sys
from pathlib import Path
from compilegate.job import start
from compilegate.job.files import remove_at_end

folder, file = Path(sys.argv[1], "cache"), Path(sys.argv[1], "causes.txt")
# As a job that is finished when its script ends.
atexit.register(lambda: print((folder / "kernel.so").is_file(), file.is_file()))
folder.mkdir()
(folder / "kernel.so").touch()
file.touch()
for path in (folder, file, folder.parent / "absent"):
    remove_at_end(str(path))
"""


@pytest.mark.slow
def test_what_a_job_reads_when_its_script_ends_is_removed_after_that(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True True\n", "")
    assert not list(tmp_path.iterdir())
