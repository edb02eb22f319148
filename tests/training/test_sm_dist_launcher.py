"""The launcher of the old images hands everything on, and ends as what it started ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LAUNCHER = Path(__file__).parents[2] / "training" / "sm_dist_launcher.py"
SM_DIST = """
import sys
print(sys.argv[1:])
sys.exit(5)
"""


def test_arguments_go_to_sm_dist_one_by_one_and_its_exit_status_comes_back(tmp_path: Path) -> None:
    """`torch_xla.distributed.sm_dist` is in AWS's images only; this one tells what it was given."""
    package = tmp_path / "torch_xla" / "distributed"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "sm_dist.py").write_text(SM_DIST)
    arguments = ["--seed", "7", "--title", "two words; $HOME", "--training_script", "train.py"]
    done = subprocess.run(
        [sys.executable, str(LAUNCHER), *arguments],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 5
    assert done.stdout == f"{arguments}\n"
