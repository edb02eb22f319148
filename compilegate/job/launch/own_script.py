"""Starts a training script of a workload's own, and writes what evidence the script does not write.

The request names this program. Variables say which script is meant, in how many processes it runs
on each machine, whether its failure is evidence (a candidate that cannot be trained must not keep
the baseline from its release), and which metrics to catch where the script only prints them. The
script gets its own arguments and no others; what its job is, it finds in a variable
(`compilegate.job.script.told`). Each of its processes is seeded before its first line
(`compilegate.job.launch.script_process`).
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Dict, Optional, Sequence, Tuple

from compilegate.job.doctor.checkup import checkup
from compilegate.job.evidence import (
    CompilerRecord,
    Evidence,
    Origin,
    record_failure,
    write_evidence,
)
from compilegate.job.launch import script_process
from compilegate.job.launch.process import Ended
from compilegate.job.launch.scripts.arguments import script_arguments
from compilegate.job.launch.scripts.printed_metrics import PrintedMetrics, Silence
from compilegate.job.launch.scripts.printed_speed import printed_speed
from compilegate.job.launch.scripts.told import hyperparameters, script_environment
from compilegate.job.launch.supervisor import Failure, Launch, supervise
from compilegate.job.machine.gpus import name_gpus
from compilegate.job.names import (
    ARM_VARIABLE,
    AVERAGE_SPEED_METRIC,
    COMPILER,
    ON_FAILURE_VARIABLE,
    OUTPUT_DATA_VARIABLE,
    PROCESSES_VARIABLE,
    SEED,
    SPEED_METRIC,
)

NO_EVIDENCE = (
    "the script ended without evidence, expected these calls of compilegate.job in it: "
    "`model = job.compile(model)`, `for batch in job.steps(loader)`, `job.examples(ids=..., ...)` "
    "or `job.metrics(...)`, and `job.save(model)`; or evidence = 'printed' in [program], for a "
    "script that only prints its metrics"
)
"""A script that makes some of these calls is told by compilegate.job which one it lacks."""


def main(arguments: Sequence[str]) -> int:
    """Run the script to its end; returns the exit status for this process."""
    told = script_environment(hyperparameters(arguments), os.environ)
    name_gpus(told)
    processes = os.environ.get(PROCESSES_VARIABLE)

    def record(failure: Failure) -> None:
        evidence = _evidence(arguments, attempts=failure.attempts, failure=failure)
        record_failure(os.environ[OUTPUT_DATA_VARIABLE], evidence)

    def conclude(ended: Ended, printed: PrintedMetrics, attempts: Tuple[str, ...]) -> None:
        evidence = _printed_evidence(arguments, printed, ended.silence, attempts)
        write_evidence(os.environ[OUTPUT_DATA_VARIABLE], evidence)

    return supervise(
        Launch(
            program=[script_process.__file__, *script_arguments(arguments, os.environ)],
            without_evidence=NO_EVIDENCE,
            processes=None if processes is None else int(processes),
            environment=told,
            record=record if os.environ.get(ON_FAILURE_VARIABLE) == "record" else None,
            conclude=None if PrintedMetrics.declared(os.environ) is None else conclude,
        )
    )


def _printed_evidence(
    arguments: Sequence[str], printed: PrintedMetrics, silence: Silence, attempts: Tuple[str, ...]
) -> Evidence:
    evidence = _evidence(
        arguments, attempts=attempts, metrics=printed.values, origin=Origin.PRINTED
    )
    evidence = replace(evidence, printed=printed.course)
    compiled = evidence.recipe.get(COMPILER, "eager") != "eager"
    speed = printed_speed(printed.series.get(SPEED_METRIC, ()), silence, compiled=compiled)
    if speed is None:
        return evidence
    if speed.note is not None:
        print(f"note: {speed.note}", flush=True)
    name = AVERAGE_SPEED_METRIC if speed.average else SPEED_METRIC
    others = {each: value for each, value in evidence.metrics.items() if each != SPEED_METRIC}
    return replace(
        evidence,
        metrics={**others, name: speed.value},
        notes=() if speed.note is None else (speed.note,),
    )


def _evidence(
    arguments: Sequence[str],
    *,
    attempts: Tuple[str, ...],
    metrics: Optional[Dict[str, float]] = None,
    failure: Optional[Failure] = None,
    origin: str = Origin.MEASURED,
) -> Evidence:
    """What is known without the script: its arguments, its output, how it ended."""
    told = hyperparameters(arguments)
    compiler = told.get(COMPILER)
    return Evidence(
        job=os.environ["TRAINING_JOB_NAME"],
        arm=os.environ[ARM_VARIABLE],
        seed=int(str(told[SEED])),
        recipe=told,
        # Of a script that failed nobody asks whether its compiler ran.
        compiler=CompilerRecord(str(compiler), ran=False) if compiler and failure else None,
        speed=None,
        metrics=metrics or {},
        failure=None if failure is None else failure.reason,
        ending=None if failure is None else failure.ending.name,
        attempts=attempts,
        origin=origin,
        checkup=checkup(),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
