"""The entry point of a training job: one arm, one seed.

    SM_CHANNEL_PREPARED=prepared SM_MODEL_DIR=model SM_OUTPUT_DATA_DIR=output \
    PYTHONPATH=. python training/train.py --arm baseline --seed 1 --compiler eager

It understands the arguments and supervises `training.job`, which does the work.
"""

from __future__ import annotations

import os
import sys
from typing import Sequence

from training.arguments import read_job
from training.failure import InputError, report_failure
from training.supervisor import supervise


def main(arguments: Sequence[str]) -> int:
    """Run the job; returns the exit status."""
    try:
        job = read_job(arguments, os.environ)
    except InputError as error:
        report_failure(str(error), os.environ)
        return 1
    return supervise(job, "training.job", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
