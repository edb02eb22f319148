"""The entry point of a training job: one arm, one seed.

    SM_CHANNEL_PREPARED=prepared SM_MODEL_DIR=model SM_OUTPUT_DATA_DIR=output \
    PYTHONPATH=. python training/train.py --arm baseline --seed 1 --compiler eager

It reads the arguments and supervises `training.job`, which does the work.

PyTorch/XLA's launcher (`distribution = "pytorchxla"`) imports this file and calls `_mp_fn` in each
process that it starts.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Sequence

from compilegate.job import InputError, record_failure
from compilegate.job.contract import JOB_STARTED_VARIABLE
from compilegate.job.errors import report_failure
from compilegate.job.launch.supervisor import Failure, Launch, supervise
from training.arguments import read_arguments


def main(arguments: Sequence[str]) -> int:
    """Run the job; returns the exit status."""
    try:
        request = read_arguments(arguments, os.environ)
    except InputError as error:
        report_failure(str(error), os.environ)
        return 1

    def record(failure: Failure) -> None:
        evidence = request.config.failure(
            failure.reason, ending=failure.ending.name, attempts=failure.attempts
        )
        record_failure(request.config.output, evidence)

    environment = dict(os.environ)
    if request.processes is not None:  # each would otherwise have a thread on every core
        environment["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // request.processes))
    return supervise(
        Launch(
            program=["-m", "training.job", *arguments],
            without_evidence="the training ended without writing its evidence",
            processes=request.processes,
            environment=environment,
            record=record if request.config.on_failure == "record" else None,
        )
    )


def _mp_fn(_index: int) -> None:
    """Train in this process; torch_xla's launcher started it and gave the function its name.

    The launcher ends the job when one of its processes dies.
    """
    from training import job  # noqa: PLC0415 - imports torch, which the supervisor does without

    os.environ.setdefault(JOB_STARTED_VARIABLE, str(time.monotonic()))
    status = job.main(sys.argv[1:])
    if status:
        sys.exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
