"""Starts a training script of a workload's own, and writes what evidence the script does not write.

The request names this program. Variables say which script is meant, in how many processes it runs
on each machine, whether its failure is evidence (a candidate that cannot be trained must not keep
the baseline from its release), and which metrics to catch where the script only prints them. The
script gets its own arguments and no others; what its job is, it finds in a variable
(`compilegate.job.script.told`).
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from compilegate.job.doctor.checkup import checkup
from compilegate.job.errors import report_failure
from compilegate.job.evidence import (
    CompilerRecord,
    Evidence,
    Origin,
    record_failure,
    write_evidence,
)
from compilegate.job.launch.failure import distrust_compile_cache, is_profiled, read_note
from compilegate.job.launch.scripts.arguments import script_arguments
from compilegate.job.launch.scripts.printed_metrics import PrintedMetrics, Silence
from compilegate.job.launch.scripts.printed_speed import printed_speed
from compilegate.job.launch.scripts.process import Ended, run_script
from compilegate.job.launch.scripts.told import hyperparameters, script_environment
from compilegate.job.launch.torchrun import torchrun_command
from compilegate.job.machine.gpus import name_gpus
from compilegate.job.machine.world import host_rank
from compilegate.job.names import (
    ARM_VARIABLE,
    AVERAGE_SPEED_METRIC,
    COMPILE_CACHE_VARIABLE,
    COMPILER,
    EVIDENCE_FILE,
    EVIDENCE_FOLDER,
    FAILURE_NOTE_VARIABLE,
    ON_FAILURE_VARIABLE,
    OUTPUT_DATA_VARIABLE,
    PROCESSES_VARIABLE,
    SCRIPT_VARIABLE,
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
    with tempfile.TemporaryDirectory(prefix="script-") as folder:
        return _run(arguments, Path(folder))


def _run(arguments: Sequence[str], notes: Path) -> int:
    """`notes` is a folder where the script's processes note what their launcher has to know."""
    failure = notes / "failure.json"
    printed = PrintedMetrics.declared(os.environ)
    told = script_environment(hyperparameters(arguments), os.environ)
    name_gpus(told)
    ended = run_script(
        _command(arguments),
        {**told, **_told_several(failure)},
        printed,
    )
    if ended.stopped:
        return 128 + ended.stopped
    if printed is not None and printed.fault is not None:
        report_failure(printed.fault, os.environ)  # every arm would fail like that
        return 1
    if ended.status:
        return _failed(arguments, _why(ended, failure), ended.exit_status)
    if host_rank(os.environ) > 0:
        return 0  # the first machine leaves the evidence
    return _leave_evidence(arguments, printed, ended.silence)


def _leave_evidence(
    arguments: Sequence[str], printed: Optional[PrintedMetrics], silence: Silence
) -> int:
    """What the script printed; or what it wrote itself, which is asked for."""
    if is_profiled(os.environ):
        return 0
    if printed is not None:
        evidence = _printed_evidence(arguments, printed, silence)
        write_evidence(os.environ[OUTPUT_DATA_VARIABLE], evidence)
        return 0
    if _has_evidence():
        return 0
    if not _recorded():
        report_failure(NO_EVIDENCE, os.environ)
    return _failed(arguments, NO_EVIDENCE, 1)


def _why(ended: Ended, note: Path) -> str:
    """Why the script failed; what its death may be the fault of is not trusted again."""
    noted = read_note(note)
    distrust_compile_cache(ended.signal if noted is None else noted.signal, _archives())
    return f"{ended.sentence if noted is None else noted.reason}: {ended.exception}"


def _command(arguments: Sequence[str]) -> List[str]:
    program = [os.environ[SCRIPT_VARIABLE], *script_arguments(arguments, os.environ)]
    processes = os.environ.get(PROCESSES_VARIABLE)
    if processes is None:
        return [sys.executable, *program]
    watched = "compilegate.job.launch.watched_torchrun"
    return torchrun_command(int(processes), program, os.environ, torchrun=watched)


def _told_several(note: Path) -> Dict[str, str]:
    """Where torchrun notes which signal killed one of the processes."""
    return {FAILURE_NOTE_VARIABLE: str(note)} if os.environ.get(PROCESSES_VARIABLE) else {}


def _archives() -> Optional[Path]:
    folder = os.environ.get(COMPILE_CACHE_VARIABLE)
    return Path(folder) if folder else None


def _failed(arguments: Sequence[str], reason: str, status: int) -> int:
    """A failure is evidence where the request says so, and otherwise the end of the job."""
    if not _recorded():
        return status
    if host_rank(os.environ) == 0:
        record_failure(os.environ[OUTPUT_DATA_VARIABLE], _evidence(arguments, failure=reason))
    return 0


def _recorded() -> bool:
    return os.environ.get(ON_FAILURE_VARIABLE) == "record"


def _has_evidence() -> bool:
    folder = Path(os.environ[OUTPUT_DATA_VARIABLE]) / EVIDENCE_FOLDER
    return (folder / EVIDENCE_FILE).is_file()


def _printed_evidence(
    arguments: Sequence[str], printed: PrintedMetrics, silence: Silence
) -> Evidence:
    evidence = _evidence(arguments, metrics=printed.values, origin=Origin.PRINTED)
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
    metrics: Optional[Dict[str, float]] = None,
    failure: Optional[str] = None,
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
        failure=failure,
        origin=origin,
        checkup=checkup(),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
