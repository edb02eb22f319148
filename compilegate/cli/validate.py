"""`compilegate validate`: check a workload file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from compilegate.cli.options.project import Project, load_workload, project_options, settings_here
from compilegate.cli.workload.checks import (
    check_functions,
    check_program,
    image_bases,
    refuse_infeasible,
    refuse_unknown_images,
)
from compilegate.workload import Schedule, Workload
from compilegate.workload.feasibility import findings
from compilegate.workload.schedule import Rate, next_times, read_expression, read_time_zone


@click.command("validate")
@click.argument("workload", metavar="NAME|FILE")
@click.option(
    "--region",
    help="Also check that AWS has each image in this region; by default that of "
    "infra/settings.toml.",
)
@project_options
def command(workload: str, region: str | None, workloads: Path, containers: Path) -> None:
    """Check a workload file, and do nothing else.

    \b
      compilegate validate news-topics
      compilegate validate drafts/mine.toml --region eu-central-1

    Every problem is one line that names the file, the key, what was found and what is allowed.
    Metric functions of your own are imported as the gate's job will import them. An arm that cannot
    run is refused, with what to do instead. A line that is not a problem warns of something (an
    image that AWS no longer patches, a margin that the seeds can hardly show).
    """
    declared, path = load_workload(workload, workloads)
    settings = settings_here()
    region = region or settings.region
    bases = image_bases(containers, settings.images.base)
    refuse_infeasible(declared, path, region=region, bases=bases)
    refuse_unknown_images(declared, path, containers, settings.images.base)
    check_program(declared, path)
    check_functions(declared, path, Project(workloads=workloads, containers=containers))
    click.echo(f"{path}: valid: {_description(declared)}")
    if declared.schedule is not None:
        click.echo(f"{path}: {schedule_sentence(declared.schedule, datetime.now(UTC))}")
    for name, arm in declared.arms.items():
        for explanation in arm.explanations:
            click.echo(f"{path}: arms.{name}.{explanation}")
    today = datetime.now(UTC).date()
    for finding in findings(declared, today=today, region=region, bases=bases):
        click.echo(f"{path}: {finding.sentence}")
    for sentence in _checked_margins(declared):
        click.echo(f"{path}: gate.metrics.{sentence}")


SHOWN_TIMES = 3


def schedule_sentence(schedule: Schedule, now: datetime) -> str:
    """When the workload will be trained next."""
    expression, zone = read_expression(schedule.expression), read_time_zone(schedule.timezone)
    times = [
        f"{time:%a %Y-%m-%d %H:%M %Z}" for time in next_times(expression, zone, now, SHOWN_TIMES)
    ]
    if isinstance(expression, Rate):
        when = f"if deployed now, starts at {', '.join(times)}"
    else:
        when = f"starts next at {', '.join(times)}" if times else "will not start again"
    off = "" if schedule.enabled else "; it is disabled"
    return f"schedule: {schedule.expression} in {schedule.timezone} {when}{off}"


def _description(workload: Workload) -> str:
    if not workload.arms:
        return f"a new model against the registered one; {len(workload.seeds)} training jobs"
    arms = ", ".join(f"{name} ({arm.compiler})" for name, arm in workload.arms.items())
    jobs = len(workload.arms) * len(workload.seeds)
    return f"{len(workload.arms)} arms, {arms}; {len(workload.seeds)} seeds; {jobs} training jobs"


def _checked_margins(workload: Workload) -> tuple[str, ...]:
    from compilegate.gate.quality.resolution import Design, check_margins  # noqa: PLC0415  scipy takes time

    design = Design(seeds=len(workload.seeds), candidates=len(workload.candidates))
    return check_margins(workload.gate, design)
