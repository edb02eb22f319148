"""`compilegate validate`: is the file right?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.cli.project import Project, check_functions, load_workload, project_options
from pipelines.workload import Workload

if TYPE_CHECKING:
    from pipelines.gate.resolution import MarginCheck


@click.command("validate")
@click.argument("workload", metavar="NAME|FILE")
@project_options
def command(workload: str, workloads: Path, containers: Path) -> None:
    """Check a workload file, and do nothing else.

    Every problem is one line that names the file, the key, what was found and what is allowed.
    Metric functions of your own are imported as the gate's job will import them.
    A margin that the declared seeds can hardly show is valid, and said to be so.
    """
    declared, path = load_workload(workload, workloads)
    check_functions(declared, path, Project(workloads=workloads, containers=containers))
    click.echo(f"{path}: valid: {_description(declared)}")
    for check in _checked_margins(declared):
        click.echo(f"{path}: gate.metrics.{check.sentence}")


def _description(workload: Workload) -> str:
    arms = ", ".join(f"{name} ({arm.compiler})" for name, arm in workload.arms.items())
    jobs = len(workload.arms) * len(workload.seeds)
    return f"{len(workload.arms)} arms, {arms}; {len(workload.seeds)} seeds; {jobs} training jobs"


def _checked_margins(workload: Workload) -> tuple[MarginCheck, ...]:
    from pipelines.gate.resolution import (  # noqa: PLC0415  scipy takes time
        Design,
        check_margins,
    )

    design = Design(seeds=len(workload.seeds), candidates=len(workload.candidates))
    return check_margins(workload.gate, design)
