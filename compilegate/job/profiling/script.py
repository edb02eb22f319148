"""Profiles a script as it is: ``python -m compilegate.job.profiling.script train.py --epochs 1``.
Its loop is known by its loaders and the optimizer's `step`."""

from __future__ import annotations

import os
import runpy
import sys
from typing import Sequence

from compilegate.job.profiling.session import ProfileWritten, current

NOT_ENOUGH = 4  # the exit status where the script ended before enough steps were taken


def main(arguments: Sequence[str]) -> int:
    """Run the script under a session; returns the exit status."""
    sys.argv = list(arguments)
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    session = current()
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except ProfileWritten:
        return 0
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code not in (None, 0):
            session.quiet = True  # what it printed says why
            raise
    return 0 if session.over else NOT_ENOUGH


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
