"""How likely the gate lets a candidate pass that is as good as the baseline, before training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from compilegate.datasets.inspection import validation_rows
from compilegate.job.names import VERDICT_FILE
from compilegate.workload import Workload

if TYPE_CHECKING:
    from compilegate.gate.verdict import Verdict

PLACES = ("executions", "aws")
"""Folders of the home with the executions here, and with those fetched from SageMaker."""
UNKNOWN = (
    "how likely an equal candidate passes is not known before the first run; its report has the "
    "noise floor, to be declared as expected_seed_sd"
)


def forecast_lines(workload: Workload, path: Path, home: Path) -> Iterator[str]:
    """A line for each guarded metric and the speed, after the key that it is about; and for each
    wish that no evidence of such a size can meet. The newest verdict on the workload in the home is
    the pilot, which knows the spread of seeds, rows and times."""
    from compilegate.gate.forecast import (  # noqa: PLC0415  scipy takes time
        Design,
        forecast,
        in_words,
        never_passing,
    )

    if not workload.candidates:  # nothing is compared
        return
    settings = workload.gate
    design = Design(
        seeds=len(workload.seeds),
        candidates=len(workload.candidates),
        examples=validation_rows(workload.data, path.parent),
    )
    pilot = newest_verdict(home, workload.name)
    measured = [] if pilot is None else [it for it in pilot.candidates if it.metrics]
    measured = [it for it in measured if it.arm in workload.candidates]
    for candidate in measured:
        for chance in forecast(settings, design, candidate):
            key = "min_speedup" if chance.of == "speed" else f"metrics.{chance.of}"
            yield f"{key}, {candidate.arm}: {in_words(chance)}"
    if not measured:
        found = {chance.of: in_words(chance) for chance in forecast(settings, design)}
        for metric, guard in settings.metrics.items():
            if guard.margin is not None:
                yield f"metrics.{metric}: {found.get(metric, UNKNOWN)}"
    yield from never_passing(settings, design)


def newest_verdict(home: Path, name: str) -> Verdict | None:
    """The verdict of the execution of a workload that started last; None where there is none."""
    paths = [path for place in PLACES for path in home.glob(f"{place}/*/{VERDICT_FILE}")]
    if not paths:
        return None
    from compilegate.gate.verdict import Verdict, VerdictError  # noqa: PLC0415  pydantic takes time

    for path in sorted(paths, key=lambda each: started(each.parent), reverse=True):
        try:
            verdict = Verdict.from_json(path.read_bytes())
        except (OSError, VerdictError):  # a definition from elsewhere may write another kind
            continue
        if verdict.workload == name and verdict.candidates:
            return verdict
    return None


def started(folder: Path) -> float:
    """When an execution here started; of one on SageMaker, when its verdict was fetched."""
    try:
        return float(json.loads((folder / "execution.json").read_bytes())["started"])
    except (OSError, ValueError, LookupError, TypeError):
        return (folder / VERDICT_FILE).stat().st_mtime
