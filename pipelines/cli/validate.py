"""`compilegate validate`: is the file right?"""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.cli.project import load_workload
from pipelines.workload import Workload


@click.command("validate")
@click.argument("workload", metavar="NAME|FILE")
@click.option(
    "--workloads",
    type=click.Path(path_type=Path),
    default="workloads",
    show_default=True,
    help="Folder in which a NAME is looked up as NAME.toml.",
)
def command(workload: str, workloads: Path) -> None:
    """Check a workload file, and do nothing else.

    Every problem is one line that names the file, the key, what was found and what is allowed.
    """
    declared, path = load_workload(workload, workloads)
    click.echo(f"{path}: valid: {_description(declared)}")


def _description(workload: Workload) -> str:
    arms = ", ".join(f"{name} ({arm.compiler})" for name, arm in workload.arms.items())
    jobs = len(workload.arms) * len(workload.seeds)
    return f"{len(workload.arms)} arms, {arms}; {len(workload.seeds)} seeds; {jobs} training jobs"
