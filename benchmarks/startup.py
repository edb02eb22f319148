"""Time the start of commands, imports and the gate's job.

    python -m benchmarks.startup [--rounds N] [--write]

The peer is `python -c pass`; all run in turn. Processor time is the figure that holds on a machine
that does other things too. Prints also what the wheel installs.
"""

from __future__ import annotations

import os
import statistics
import sys
from functools import partial
from pathlib import Path

from benchmarks import results
from benchmarks.timing import in_turn, run

COMPILEGATE = str(Path(sys.executable).parent / "compilegate")
WORKLOAD = "workloads/news-topics.toml"
IMPORTS = ("compilegate", "compilegate.job", "compilegate.gate.judge", "compilegate.local")
PROGRAMS = {
    "`python -c pass`": [sys.executable, "-c", "pass"],
    "`compilegate --help`": [COMPILEGATE, "--help"],
    "`compilegate validate`": [COMPILEGATE, "validate", WORKLOAD],
    "`compilegate check training`": [COMPILEGATE, "check", "--fail-on", "never", "training"],
    "`compilegate pipeline compile`": [COMPILEGATE, "pipeline", "compile", WORKLOAD],
    **{f"`import {name}`": [sys.executable, "-c", f"import {name}"] for name in IMPORTS},
    "the gate's job, `--help`": [
        *(sys.executable, "-m", "compilegate.pipelines.programs.gate", "--help")
    ],
}


def installed() -> str:
    """What the wheel installs, without what Python compiles of it."""
    sizes = [
        (Path(folder) / name).stat().st_size
        for folder, _, names in os.walk(results.PROJECT / "compilegate", followlinks=True)
        for name in names
        if "__pycache__" not in folder
    ]
    return f"The wheel installs {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB."


def main() -> None:
    """Measure and print."""
    parser = results.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    programs = {name: partial(run, command) for name, command in PROGRAMS.items()}
    rows = []
    for name, runs in in_turn(programs, options.rounds).items():
        figures = [[each.cpu for each in runs], [each.wall for each in runs]]
        rows.append([name, *(f"{statistics.median(each):.3f}" for each in figures)])
    columns = ["program", "processor time, s", "wall time, s"]
    results.publish("startup", columns, rows, to_file=options.write, notes=[installed()])


if __name__ == "__main__":
    main()
