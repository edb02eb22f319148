"""A script of a workload's own in the processes of several machines, which find each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MACHINES = ["127.0.0.1", "algo-2"]
"""The second name is never asked for: machines meet at the first one."""
SCRIPT = """
import json, os, sys
print(json.dumps([os.environ["RANK"], os.environ["WORLD_SIZE"], sys.argv[1:]]))
"""


def start(machine: str, script: Path, *arguments: str) -> subprocess.Popen[str]:
    variables = {
        "PYTHONPATH": str(ROOT),
        "SM_HOSTS": json.dumps(MACHINES),
        "SM_CURRENT_HOST": machine,
        "COMPILEGATE_SCRIPT": str(script),
        "COMPILEGATE_PROCESSES": "2",
    }
    return subprocess.Popen(
        [sys.executable, str(ROOT / "training" / "torchrun_launcher.py"), *arguments],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_each_process_of_two_machines_has_a_rank_and_the_script_s_own_arguments(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    arguments = ["--title", "two words; $HOME"]
    launched = [start(machine, script, *arguments) for machine in MACHINES]
    told = [json.loads(line) for each in launched for line in each.communicate()[0].splitlines()]
    assert sorted(told) == [[str(rank), "4", arguments] for rank in range(4)]
    assert [each.returncode for each in launched] == [0, 0]
