"""The launcher of the old images hands everything on, and ends as what it started ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
AWS_S = """
import argparse, importlib.util, os, subprocess, sys

if os.environ.get("SPAWNED"):
    script, *sys.argv[1:] = sys.argv[1:]
    specification = importlib.util.spec_from_file_location("started", script)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module._mp_fn(0)
else:
    parser = argparse.ArgumentParser()
    parser.add_argument("--training_script")
    known, rest = parser.parse_known_args()
    how = [] if os.environ["STYLE"] == "runs" else ["-m", "torch_xla.distributed.sm_dist"]
    command = " ".join([sys.executable, *how, known.training_script, *rest])
    sys.exit(subprocess.call(command, shell=True, env={**os.environ, "SPAWNED": "1"}))
"""
"""What is known of AWS's, which is in its images only."""
SCRIPT = """
import json, os, sys
from beside import NAME

def main():
    print(json.dumps([sys.argv, NAME, os.environ.get("GPU_NUM_DEVICES")]))
    sys.exit(5)

def _mp_fn(index):
    main()

if __name__ == "__main__":
    main()
"""
DECLARED = {
    "training_script": "mine/train.py",
    "seed": 7,
    "fp16": True,
    "verbose": False,
    "title": "two words; $HOME",
    "note": "",
    "quote": "it's",
    "n": 2,
    "sizes": {"b": 1, "a": 2},
}
PASSED = [
    *("--fp16", "True", "-n", "2", "--note", "", "--quote", "it's", "--seed", "7"),
    *("--sizes", "a=2,b=1", "--title", "two words; $HOME", "--verbose", "False"),
]


def launched(
    folder: Path, script: str = SCRIPT, style: str = "calls", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs it on a program, with AWS's launcher where Python finds it. The product is linked, since
    AWS's launcher goes through a shell and this clone's path may have a space, as no path in an
    image has."""
    (folder / "compilegate").symlink_to(ROOT / "compilegate")
    for name, text in {
        "torch_xla/__init__.py": "",
        "torch_xla/distributed/__init__.py": "",
        "torch_xla/distributed/sm_dist.py": AWS_S,
        "mine/train.py": script,
        "mine/beside.py": "NAME = 'beside'\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    settings = {"PYTHONPATH": str(folder), "PATH": os.environ["PATH"], "STYLE": style}
    return subprocess.run(
        [sys.executable, "compilegate/job/launch/sm_dist.py"],
        cwd=folder,
        env={**settings, "SM_HPS": json.dumps(DECLARED), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("style", "settings", "gpus"),
    [
        ("runs", {"SM_NUM_GPUS": "0"}, None),
        ("calls", {"SM_NUM_GPUS": "4"}, "4"),
        ("runs", {"SM_NUM_GPUS": "4", "GPU_NUM_DEVICES": "2"}, "2"),  # the image says so
    ],
)
def test_a_script_gets_what_was_declared_and_its_exit_status_comes_back(
    tmp_path: Path, style: str, settings: dict[str, str], gpus: str | None
) -> None:
    """However AWS's launcher starts what it is given; torch_xla is told the number of GPUs."""
    done = launched(tmp_path, style=style, **settings)
    assert done.returncode == 5, done.stderr
    assert json.loads(done.stdout) == [["mine/train.py", *PASSED], "beside", gpus]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    done = launched(tmp_path, script="print('trained')\n")
    assert done.returncode == 1
    assert "mine/train.py has no function _mp_fn(index)" in done.stderr
    (tmp_path / "compilegate").unlink()
    done = launched(tmp_path, SM_HPS="{}")
    assert done.returncode == 2
    assert "training_script is missing" in done.stderr
