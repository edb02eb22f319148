"""A workload's posture around an execution on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from compilegate.execution.result import ExecutionResult
from compilegate.execution.status import UNSUCCESSFUL, ExecutionStatus
from compilegate.local import FunctionSources, Handler
from compilegate.posture import names
from compilegate.posture.function import handler
from compilegate.posture.function.ended import FailedStep, settle_ended
from compilegate.posture.machine.events import Settled
from compilegate.posture.records.files import FileRecords
from compilegate.posture.records.keeping import current
from compilegate.posture.state import State
from compilegate.workload import Workload

FOLDER = "posture"


def records_in(home: Path) -> FileRecords:
    """The records of a home."""
    return FileRecords(home.resolve() / FOLDER)


def posture_functions(home: Path) -> FunctionSources:
    """What stands for the function that keeps the records."""
    day = os.environ.get(names.DAY_VARIABLE)
    environment = {
        names.FOLDER_VARIABLE: str(records_in(home).folder),
        **({} if day is None else {names.DAY_VARIABLE: day}),
    }
    here = Handler(Path(handler.__file__), environment=environment)
    return FunctionSources(patterns=((f"*:function:{names.FUNCTION}", here),))


def posture_lines(workload: str, execution: str, home: Path) -> Iterator[str]:
    """What an execution has changed in the workload's posture; nothing where it has no record."""
    text, _ = records_in(home).read(workload)
    if text is None:
        return
    record, _ = current(records_in(home), workload, when=handler.now(), who=execution)
    for decision in record.decisions:
        if isinstance(decision.event, Settled) and decision.event.execution == execution:
            moved = decision.before is not decision.after
            before = f"{decision.before} -> {decision.after}" if moved else str(decision.after)
            yield f"posture: {before}, {decision.reason}"


def settle_failed(workload: Workload, home: Path, result: ExecutionResult) -> State | None:
    """Settle an execution that ended before its gate could; None where there is nothing to settle.

    A candidate whose job failed is refused. Nothing is learned from any other failure.
    """
    if workload.posture is None or result.status is not ExecutionStatus.FAILED:
        return None
    failed = [
        FailedStep(step.name, "" if step.failure is None else step.failure.sentence)
        for step in result.steps.values()
        if step.status in UNSUCCESSFUL
    ]
    after = settle_ended(
        records_in(home),
        workload.name,
        result.execution_id,
        failed=failed,
        otherwise=str(result.failure),
        when=handler.now(),
        who="runner",
    )
    return None if after is None else after.state
