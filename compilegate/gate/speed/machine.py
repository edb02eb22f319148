"""Was the machine quiet while the jobs were timed? Pure.

Every job says in its evidence how many processes wanted to run, on how many processors, and which
share of them the hypervisor gave to other machines. Where that is too much, an undecided speed-up
says something about the machine and nothing about the compiler, and the verdict has to say so.

The load counts the job itself and those that train beside it, one for each processor; so a machine
is busy only where half as many again want to run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from compilegate.evidence import EvidenceRecord

MOST_LOAD = 1.5
"""Processes for each processor, those that wait for one included."""
MOST_STEAL = 0.05
"""Share of the processors' time that the hypervisor may give to others."""


def busy_machine(records: Sequence[EvidenceRecord]) -> str | None:
    """What else the machines of these jobs did, in words that follow "The machine was busy: "; None
    where they were quiet, or the jobs do not tell.

    Half of the jobs or more must have met it: a single one does not widen an interval of them all.
    """
    checkups = [record.evidence.checkup for record in records]
    loads = [found for found in map(_load, checkups) if found is not None]
    steals = [found for each in checkups if (found := _number(each, "steal")) is not None]
    said = []
    load, processors = statistics.median_low(loads) if loads else (0.0, 1.0)
    if load > MOST_LOAD * processors:
        said.append(f"{load:.1f} processes wanted to run on {_counted(processors)}")
    steal = statistics.median_low(steals) if steals else 0.0
    if steal > MOST_STEAL:
        said.append(f"its hypervisor gave {steal:.0%} of the processors' time to others")
    return " and ".join(said) or None


def _load(checkup: Mapping[str, Any]) -> tuple[float, float] | None:
    """Processes that wanted to run, and processors."""
    load, processors = _number(checkup, "load"), _number(checkup, "processors")
    return None if load is None or not processors else (load, processors)


def _number(checkup: Mapping[str, Any], name: str) -> float | None:
    """A finite number that is not negative; evidence may hold anything under this name."""
    value = checkup.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < math.inf else None


def _counted(processors: float) -> str:
    return "one processor" if processors == 1 else f"{processors:g} processors"
