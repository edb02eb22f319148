"""`compilegate validate`: check a workload file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import click

from compilegate.advice.told.text import gravest
from compilegate.cli.checks import (
    check_data,
    check_functions,
    check_requirements,
    data_problems,
    image_bases,
    refuse_all_at_once,
    refuse_infeasible,
)
from compilegate.cli.measured import advice_on, forecast_lines
from compilegate.cli.options import (
    Project,
    json_option,
    optional_workload_argument,
    pass_project,
    print_json,
    region_option,
)
from compilegate.cli.terminal.errors import RefusalError, found_in
from compilegate.errors import CompilegateError
from compilegate.execution import exit_codes
from compilegate.pipelines.deployment import local_deployment
from compilegate.pipelines.requests.images import image_faults
from compilegate.pipelines.staging import image_tags, imported_libraries, training_code
from compilegate.workload import (
    Schedule,
    Workload,
    WorkloadError,
    find_workload,
    read_data_table,
    read_workload,
)
from compilegate.workload.feasibility import findings
from compilegate.workload.schedule import Rate, next_times, read_expression, read_time_zone


@click.command("validate")
@optional_workload_argument
@region_option
@json_option
@click.option(
    "--schema", is_flag=True, help="Print the JSON schema of workload files, for editors."
)
@pass_project
def command(
    project: Project, workload: str | None, *, region: str | None, as_json: bool, schema: bool
) -> None:
    """Check a workload file, and do nothing else.

    \b
      compilegate validate news-topics
      compilegate validate drafts/mine.toml --region eu-central-1
      compilegate validate --schema > workloads/workload.schema.json

    Every problem is one line that names the file, the key, what was found and what is allowed. All
    are listed at once, also those of the data's header and first 20,000 rows: with line and column.
    Metric functions of your own are imported as the gate's job will import them. Other lines warn
    (of an image that AWS no longer patches, of a margin that the rows can never show), or say how
    likely the gate lets an equal candidate pass, by the newest verdict on the workload in --home.

    With --json: {"file", "valid", "problems", "summary", "notes"}. The exit status is 0 for a valid
    file, 2 for another. Taplo and Even Better TOML read the schema of a file that begins with
    `#:schema ./workload.schema.json`; `compilegate init` writes both.
    """
    if (workload is None) is not schema:
        raise click.UsageError("name a workload, or give --schema")
    if workload is None:
        from compilegate.workload.schema import schema_text  # noqa: PLC0415  seldom needed

        click.echo(schema_text(), nl=False)
        return
    facts = {"file": workload, "valid": False, "problems": [], "summary": None, "notes": []}
    try:
        path, summary, notes = _checked(workload, region, project)
    except CompilegateError as error:
        if not as_json:
            raise
        print_json({**facts, "problems": error.problems})
        raise SystemExit(exit_codes.REFUSED) from error
    if as_json:
        print_json({**facts, "file": str(path), "valid": True, "summary": summary, "notes": notes})
        return
    click.echo(f"{path}: valid: {summary}")
    for note in notes:
        click.echo(f"{path}: {note}")


def _checked(workload: str, region: str | None, project: Project) -> tuple[Path, str, list[str]]:
    """Check everything; returns the file, a summary, and what a person should know of it or be
    warned of. Raises CompilegateError with every problem that was found."""
    containers = project.containers
    path = find_workload(workload, project.workloads)
    try:
        declared = read_workload(path)
    except WorkloadError as error:
        raise RefusalError(*error.problems, *_problems_of_data(path)) from error
    settings = project.settings
    region = region or settings.region
    bases = image_bases(containers, settings.images.base)
    refuse_all_at_once(
        lambda: refuse_infeasible(declared, path, region=region, bases=bases),
        lambda: _check_images(declared, path, image_tags(containers, settings.images.base)),
        lambda: _check_program(declared, path),
        lambda: check_requirements(declared, path, containers),
        lambda: check_functions(declared, path, project),
        lambda: check_data(declared, path),
    )
    now = datetime.now(UTC)
    notes = []
    if declared.schedule is not None:
        notes.append(schedule_sentence(declared.schedule, now))
    for name, arm in declared.arms.items():
        notes += [f"arms.{name}.{explanation}" for explanation in arm.explanations]
    libraries = imported_libraries(declared, path)
    warnings = findings(declared, today=now.date(), region=region, bases=bases, libraries=libraries)
    notes += [finding.sentence for finding in warnings]
    notes += [f"gate.{sentence}" for sentence in forecast_lines(declared, path, project.home)]
    notes.append(gravest(advice_on(project, declared, path, region)))
    return path, _description(declared), notes


def _problems_of_data(path: Path) -> list[str]:
    """What does not fit in the data of a workload's file that is refused for something else."""
    table = read_data_table(path)
    return [] if table is None else data_problems(table[0], path, documents=table[1])


def _check_images(workload: Workload, path: Path, tags: Mapping[str, str]) -> None:
    """Refuse images that are not in containers/."""
    with found_in(path):
        if faults := list(image_faults(local_deployment(tags), workload)):
            raise RefusalError(*faults)


def _check_program(workload: Workload, path: Path) -> None:
    """Refuse a workload's own program that cannot be staged."""
    with found_in(path):
        training_code(workload.kind, path.parent)


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
    arms = ", ".join(f"{name} ({arm.compiler})" for name, arm in workload.arms.items())
    jobs = len(workload.arms) * len(workload.seeds)
    count = "1 arm" if len(workload.arms) == 1 else f"{len(workload.arms)} arms"
    return f"{count}, {arms}; {len(workload.seeds)} seeds; {jobs} training jobs"
