"""The launcher of the old images hands everything on, and ends as what it started ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LAUNCHER = Path(__file__).parents[3] / "compilegate" / "job" / "launch" / "sm_dist.py"
SM_DIST = """
import subprocess, sys
sys.exit(subprocess.call(" ".join([sys.executable, "script.py", *sys.argv[1:]]), shell=True))
"""
"""As AWS's does, which is in its images only."""
SCRIPT = """
import sys
print(sys.argv[1:])
sys.exit(5)
"""


def test_arguments_arrive_through_sm_dist_s_shell_and_the_exit_status_comes_back(
    tmp_path: Path,
) -> None:
    package = tmp_path / "torch_xla" / "distributed"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "sm_dist.py").write_text(SM_DIST)
    (tmp_path / "script.py").write_text(SCRIPT)
    arguments = ["--seed", "7", "--title", "two words; $HOME", "--note", "", "--quote", "it's"]
    done = subprocess.run(
        [sys.executable, str(LAUNCHER), *arguments],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 5
    assert done.stdout == f"{arguments}\n"
