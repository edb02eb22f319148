"""Profiles programs of programs.py, each in a process of its own.

    python tests/diagnose/planted.py FOLDER STEPS slow_loader one_matmul ...

torch is imported once, and each program runs in a copy of this process. On a busy machine a step of
many small operations is interrupted in between, which looks like work outside of torch: such steps
last a millisecond, so that most go through. Other programs wait or compute for far longer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch._dynamo
import torch.profiler

from compilegate.job.contract import PROFILE_VARIABLE
from compilegate.job.launch.torchrun import torchrun_command
from compilegate.job.profiling.script import main

PROGRAMS = str(Path(__file__).with_name("programs.py"))
SEVERAL = ("exchanges_gradients", "exchanges_in_a_job")
"""Programs that torchrun starts as two processes."""


def profile(program: str, folder: Path, steps: int) -> int:
    """Run it to the end of its profile, below `folder`; returns the exit status."""
    if program in SEVERAL:
        return profile_several(program, folder, steps)
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        torch.set_num_threads(1)
        os.environ[PROFILE_VARIABLE] = f"{steps}:{folder / program}"
        os.chdir(tempfile.mkdtemp(dir=folder))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = main([PROGRAMS, program])
    finally:
        os._exit(status)


def profile_several(program: str, folder: Path, steps: int) -> int:
    """The same for two processes; torch is imported anew in each."""
    script = ["-m", "compilegate.job.profiling.script", PROGRAMS, program]
    environment = {**os.environ, PROFILE_VARIABLE: f"{steps}:{folder / program}"}
    return subprocess.run(
        torchrun_command(2, script, {}), env=environment, stdout=subprocess.DEVNULL, check=False
    ).returncode


if __name__ == "__main__":
    where, steps, *programs = sys.argv[1:]
    failed = [each for each in programs if profile(each, Path(where), int(steps))]
    sys.exit(f"no profile of {', '.join(failed)}" if failed else 0)
