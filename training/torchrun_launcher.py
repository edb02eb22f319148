"""Starts a workload's own training script in several processes, and is replaced by what it starts.

The request names this program; two variables say which script is meant and how often each machine
runs it, so that the script gets its own arguments and no others.
"""

import os
import sys

from training.torchrun import torchrun_command

if __name__ == "__main__":
    script = [os.environ["COMPILEGATE_SCRIPT"], *sys.argv[1:]]
    command = torchrun_command(int(os.environ["COMPILEGATE_PROCESSES"]), script, os.environ)
    os.execv(command[0], command)  # noqa: S606 - no shell is what is wanted
