"""The entry point of a training job: one arm, one seed.

    SM_CHANNEL_PREPARED=prepared SM_MODEL_DIR=model SM_OUTPUT_DATA_DIR=output \
    PYTHONPATH=. python training/train.py --arm baseline --seed 1 --compiler eager

It understands the arguments and supervises `training.job`, which does the work.

Where PyTorch/XLA's launcher starts the processes (`distribution = "pytorchxla"`), it imports this
file and calls `_mp_fn` in each of them.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Dict, Optional, Sequence

from compilegate.job import InputError, record_failure
from compilegate.job.errors import report_failure
from compilegate.job.launch.supervisor import Failure, Launch, supervise
from compilegate.job.names import JOB_STARTED_VARIABLE
from training.arguments import read_arguments


def main(arguments: Sequence[str]) -> int:
    """Run the job; returns the exit status."""
    try:
        job = read_arguments(arguments, os.environ)
    except InputError as error:
        report_failure(str(error), os.environ)
        return 1

    def record(failure: Failure) -> None:
        evidence = job.told().failure(
            failure.reason, ending=failure.ending.name, attempts=failure.attempts
        )
        record_failure(job.folders.output_data, evidence)

    several = job.processes if job.distribution == "torchrun" else None
    return supervise(
        Launch(
            program=["-m", "training.job", *arguments],
            without_evidence="the training ended without writing its evidence",
            processes=several,
            environment={**os.environ, **_threads(several)},
            record=record if job.on_failure == "record" else None,
        )
    )


def _threads(processes: Optional[int]) -> Dict[str, str]:
    """Each of several processes would otherwise have a thread on every core."""
    if processes is None:
        return {}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"OMP_NUM_THREADS": str(max(1, (cores or 1) // processes))}


def _mp_fn(_index: int) -> None:
    """Train in this process, which torch_xla's launcher started and gave its name to.

    The launcher is its parent then, and ends the job when one of its processes dies.
    """
    from training import job  # noqa: PLC0415 - imports torch, which the supervisor does without

    os.environ.setdefault(JOB_STARTED_VARIABLE, str(time.monotonic()))
    status = job.main(sys.argv[1:])
    if status:
        sys.exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
