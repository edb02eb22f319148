"""`compilegate doctor` as a process, on whatever machine this is."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch

from tests.command import compilegate

pytestmark = pytest.mark.slow


def test_it_is_right_about_this_machine(tmp_path: Path) -> None:
    done = compilegate("doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    facts = found["facts"]
    assert facts["torch"] == str(torch.__version__)
    assert len(facts["devices"]) == torch.cuda.device_count()
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["cores"] == len(os.sched_getaffinity(0))
    assert facts["cxx"] == shutil.which("g++")
    where = "gpu" if torch.cuda.is_available() else "cpu"
    runs = {each["compiler"]: each["runs_on"] for each in found["compilers"] if not each["backend"]}
    assert runs["eager"] == runs["inductor"] == where
    assert not list(tmp_path.iterdir())  # nothing was written


@pytest.mark.long
@pytest.mark.slow
def test_the_job_of_a_workload_runs_here_and_tries_the_compilers(tmp_path: Path) -> None:
    done = compilegate(
        *("doctor", "images-diffusion", "--json"),
        *("--home", tmp_path / "home", "--image", "*=here"),
    )
    assert done.returncode == 0, done.stderr
    (answer,) = json.loads(done.stdout).values()
    assert answer["facts"]["image"].rpartition("/")[2].startswith("training:")
    tried = answer["facts"]["tried"]
    for label in ("eager", "inductor", "torch-compile, aot_eager"):
        assert tried[label] is None
