"""What XLA compiled: how often, for how long, and why."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import List, Mapping

from compilegate.job.compilers.xla import runtime

_REPORT = re.compile(r"^Compilation Analysis: =+$", re.MULTILINE)
_LINE = re.compile(r"^Compilation Analysis: ?(.*)$", re.MULTILINE)
_UNEXPECTED = re.compile(
    r"^Unexpected Execution Analysis: Python Frame Triggered Execution: ?\n"
    r"Unexpected Execution Analysis: +(\S+) \((?:.*/)?([^/]+:\d+)\)$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Compilations:
    """Counted since torch_xla was imported."""

    graphs: int
    """Graphs compiled because there was none like them."""
    reused: int
    """Executions of a graph that had been compiled."""
    seconds: float
    """Spent on compiling, and on no training."""
    executions: int

    @classmethod
    def now(cls) -> Compilations:
        """torch_xla's counters as they stand."""
        compiling, executing = runtime.metric("CompileTime"), runtime.metric("ExecuteTime")
        return cls(
            graphs=runtime.counter("UncachedCompile"),
            reused=runtime.counter("CachedCompile"),
            seconds=round(compiling[1] / 1e9, 3) if compiling else 0.0,
            executions=int(executing[0]) if executing else 0,
        )


def causes(environment: Mapping[str, str]) -> List[str]:
    """Why each graph was compiled, in order, as torch_xla's report says it.

    Empty where it reports nothing, as before release 2.
    """
    return [
        cause
        for each in _REPORT.split(_report(environment))
        if (cause := _cause([line.strip() for line in _LINE.findall(each)]))
    ]


def cut_by(environment: Mapping[str, str]) -> str:
    """The function, file and line that asked the device for a value in the middle of a step; empty
    where the report does not tell."""
    found = _UNEXPECTED.findall(_report(environment))
    return "{} in {}".format(*found[-1]) if found else ""


def _cause(lines: List[str]) -> str:
    """`torch_xla.compile: training step, 61 inputs, 124 outputs`; empty for no report."""
    told = dict(line.split(": ", 1) for line in lines if ": " in line)
    if "Compilation Cause" not in lines or "Number of Graph Inputs" not in told:
        return ""
    cause = lines[lines.index("Compilation Cause") + 1]
    name = told.get("Graph Name")
    return (
        f"{cause}: {f'{name}, ' if name else ''}{told['Number of Graph Inputs']} inputs, "
        f"{told['Number of Graph Outputs']} outputs"
    )


def _report(environment: Mapping[str, str]) -> str:
    path = environment.get(runtime.DEBUG_FILE_VARIABLE)
    if not path or not os.path.isfile(path):
        return ""
    return Path(path).read_text(encoding="utf-8", errors="replace")
