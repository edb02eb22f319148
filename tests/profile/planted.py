"""Profiles the programs that are named, each in a process of its own.

    python tests/profile/planted.py FOLDER slow_loader one_matmul ...

torch is imported once, and each program runs in a copy of this process.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import torch
import torch._dynamo
import torch.profiler

from compilegate.job.names import PROFILE_VARIABLE
from compilegate.job.profiling.script import main

PROGRAMS = Path(__file__).parent / "programs"


def profile(program: str, folder: Path, steps: int) -> int:
    """Run it to the end of its profile, below `folder`; returns the exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        torch.set_num_threads(1)
        os.environ[PROFILE_VARIABLE] = f"{steps}:{folder / program}"
        os.chdir(tempfile.mkdtemp(dir=folder))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = main([str(PROGRAMS / f"{program}.py")])
    finally:
        os._exit(status)


if __name__ == "__main__":
    where, steps, *programs = sys.argv[1:]
    failed = [each for each in programs if profile(each, Path(where), int(steps))]
    sys.exit(f"no profile of {', '.join(failed)}" if failed else 0)
