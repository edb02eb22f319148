"""Starts a workload's own training script, and writes the evidence that the script does not write.

Variables of the request name the script, its processes on each machine, whether a failure is
evidence, and which printed metrics to catch. The script gets its own arguments; its job is in a
variable.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Sequence

from compilegate.job import contract
from compilegate.job.evidence import (
    CompilerRecord,
    Evidence,
    EvidenceOrigin,
    record_failure,
    write_evidence,
)
from compilegate.job.launch import script_process
from compilegate.job.launch.script_arguments import (
    hyperparameters,
    script_arguments,
    script_environment,
)
from compilegate.job.launch.supervisor import (
    LEAST_INTERVALS,
    TOO_FEW,
    Failure,
    Launch,
    PrintedMetrics,
    printed_speed,
    supervise,
)
from compilegate.job.machine.accelerators import name_gpus
from compilegate.job.machine.environment import checkup

NO_EVIDENCE = (
    "the script ended without evidence, expected these calls of compilegate.job in it: "
    "`model = job.compile(model)`, `for batch in job.steps(loader)`, `job.examples(ids=..., ...)` "
    "or `job.metrics(...)`, and `job.save(model)`; or evidence = 'printed' in [program], for a "
    "script that only prints its metrics"
)
"""Where a script makes some of these calls, compilegate.job names the one that it lacks."""


def main(arguments: Sequence[str]) -> int:
    recipe = hyperparameters(arguments)
    environment = script_environment(recipe, os.environ)
    name_gpus(environment)
    output = os.environ[contract.OUTPUT_DATA_VARIABLE]
    processes = os.environ.get(contract.PROCESSES_VARIABLE)

    def evidence_of_attempts(attempts: tuple[str, ...]) -> Evidence:
        """What is known without the script: its arguments, and how earlier starts of it ended."""
        return Evidence(
            job=os.environ["TRAINING_JOB_NAME"],
            arm=os.environ[contract.ARM_VARIABLE],
            seed=int(str(recipe[contract.SEED])),
            recipe=recipe,
            compiler=None,
            speed=None,
            attempts=attempts,
            checkup=checkup(),
        )

    def record(failure: Failure) -> None:
        # Of a script that failed nobody asks whether its compiler ran.
        compiler = recipe.get(contract.COMPILER)
        failed = replace(
            evidence_of_attempts(failure.attempts),
            compiler=CompilerRecord(str(compiler), ran=False) if compiler else None,
            failure=failure.reason,
            ending=failure.ending.name,
        )
        record_failure(output, failed)

    def conclude(printed: PrintedMetrics, attempts: tuple[str, ...]) -> None:
        metrics, speeds = printed.values, printed.series.get(contract.SPEED_METRIC)
        notes: tuple[str, ...] = ()
        if speeds:
            metrics[contract.SPEED_METRIC] = printed_speed(speeds)
            compiled = recipe.get(contract.COMPILER, "eager") != "eager"
            if compiled and len(speeds) < LEAST_INTERVALS:
                notes = (TOO_FEW,)
                print(f"note: {TOO_FEW}", flush=True)
        found = replace(
            evidence_of_attempts(attempts),
            origin=EvidenceOrigin.PRINTED,
            metrics=metrics,
            printed=printed.recorded,
            notes=notes,
        )
        write_evidence(output, found)

    return supervise(
        Launch(
            program=[script_process.__file__, *script_arguments(arguments, os.environ)],
            without_evidence=NO_EVIDENCE,
            processes=None if processes is None else int(processes),
            environment=environment,
            record=record if os.environ.get(contract.ON_FAILURE_VARIABLE) == "record" else None,
            conclude=None if PrintedMetrics.declared(os.environ) is None else conclude,
        )
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
