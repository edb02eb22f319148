"""Profiles a script as it is: ``python -m compilegate.job.profiling.script train.py --epochs 1``.

The script needs no call of `compilegate.job`. Its loop is known by what it calls of torch: loaders,
the model, `backward`, the optimizer.
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import Sequence

from compilegate.job.names import PROFILE_VARIABLE
from compilegate.job.profiling.session import ProfileWritten, current


def main(arguments: Sequence[str]) -> int:
    """Run the script under a session; returns the exit status."""
    script = arguments[0]
    sys.argv = list(arguments)
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    session = current()
    try:
        runpy.run_path(script, run_name="__main__")
    except ProfileWritten:
        return 0
    except SystemExit as ended:
        if ended.code not in (None, 0):
            session.fail()
            raise
    except BaseException:
        session.fail()
        raise
    session.end()
    return 0 if session.over else NOT_ENOUGH


NOT_ENOUGH = 4
"""The exit status where the script ended before enough steps were taken."""


if __name__ == "__main__":
    if not os.environ.get(PROFILE_VARIABLE):
        sys.exit(f"{PROFILE_VARIABLE} says how many steps to profile, and was not set")
    sys.exit(main(sys.argv[1:]))
