"""`compilegate validate`: check a workload file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from compilegate.advice.render import in_the_way
from compilegate.cli import options
from compilegate.cli.advise import advice_on
from compilegate.cli.definitions import (
    check_data,
    check_functions,
    check_requirements,
    data_problems,
    design_of,
    image_bases,
    refuse_all_at_once,
    refuse_infeasible,
)
from compilegate.cli.options import Project, pass_project
from compilegate.cli.printing import RefusalError, counted, found_in, print_json
from compilegate.errors import CompilegateError
from compilegate.execution import exit_codes
from compilegate.pipelines.deployment import local_deployment
from compilegate.pipelines.images import image_faults, image_tags
from compilegate.pipelines.staging.requirements import imported_libraries
from compilegate.pipelines.staging.source_trees import training_code
from compilegate.workload import (
    Workload,
    WorkloadError,
    find_workload,
    read_data_table,
    read_workload,
)
from compilegate.workload.feasibility import findings


@click.command("validate")
@options.optional_workload
@options.region
@options.as_json
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

    A valid file is one line, and a line for each thing that you should do about it: an arm that
    will not pay, a margin that the rows can never show, an image that AWS no longer patches. All
    problems are listed at once, with the file, the key, what was found and what is expected: also
    those of the data's header and first 20,000 rows, and of metric functions of your own.

    With --json: {"file", "valid", "problems", "summary", "to_do"}. The exit status is 0 for a valid
    file, 2 for another. Editors read the schema where a file begins with
    `#:schema ./workload.schema.json`; `compilegate init` writes both.
    """
    if (workload is None) is not schema:
        raise click.UsageError("name a workload, or give --schema")
    if workload is None:
        from compilegate.workload.json_schema import schema_text  # noqa: PLC0415  seldom needed

        click.echo(schema_text(), nl=False)
        return
    document = {"file": workload, "valid": False, "problems": [], "summary": None, "to_do": []}
    region = region or project.settings.region
    try:
        path, declared = _checked(workload, region, project)
    except CompilegateError as error:
        if not as_json:
            raise
        print_json({**document, "problems": error.problems})
        raise SystemExit(exit_codes.REFUSED) from error
    summary, to_do = _description(declared), list(_to_do(declared, path, region, project))
    if as_json:
        found = {"file": str(path), "valid": True, "summary": summary, "to_do": to_do}
        print_json({**document, **found})
        return
    left = f"to do: {len(to_do)}" if to_do else "nothing to do"
    click.echo(f"{path}: valid: {summary}; {left}")
    for each in to_do:
        click.echo(f"{path}: {each}")


def _checked(workload: str, region: str | None, project: Project) -> tuple[Path, Workload]:
    """The file and what it declares. Raises CompilegateError with every problem that was found."""
    path = find_workload(workload, project.workloads)
    try:
        declared = read_workload(path)
    except WorkloadError as error:
        raise RefusalError(*error.problems, *_problems_of_data(path)) from error
    bases = image_bases(project)
    refuse_all_at_once(
        lambda: refuse_infeasible(declared, path, bases, region=region),
        lambda: _check_images(declared, path, project),
        lambda: _check_program(declared, path),
        lambda: check_requirements(declared, path, project.containers),
        lambda: check_functions(declared, path, project),
        lambda: check_data(declared, path),
    )
    return path, declared


def _check_images(workload: Workload, path: Path, project: Project) -> None:
    """Refuse images that are not in containers/."""
    tags = image_tags(project.containers, project.settings.images.base)
    with found_in(path):
        if faults := list(image_faults(local_deployment(tags), workload)):
            raise RefusalError(*faults)


def _check_program(workload: Workload, path: Path) -> None:
    """Refuse a workload's own program that cannot be staged."""
    with found_in(path):
        training_code(workload.kind, path.parent)


def _problems_of_data(path: Path) -> list[str]:
    """What does not fit in the data of a workload's file that is refused for something else."""
    table = read_data_table(path)
    return [] if table is None else data_problems(table[0], path, documents=table[1])


def _to_do(declared: Workload, path: Path, region: str | None, project: Project) -> Iterator[str]:
    """What the owner of a valid workload should do, each in a sentence that says why."""
    from compilegate.gate.forecast import never_passing  # noqa: PLC0415  scipy takes time

    warnings = findings(
        declared,
        today=datetime.now(UTC).date(),
        region=region,
        bases=image_bases(project),
        libraries=imported_libraries(declared, path),
    )
    yield from (each.sentence for each in warnings)
    if declared.candidates:
        yield from (
            f"gate.{each}" for each in never_passing(declared.gate, design_of(declared, path))
        )
    obstacle = in_the_way(advice_on(project, declared, path, region))
    if obstacle is not None:
        yield obstacle


def _description(workload: Workload) -> str:
    jobs = len(workload.arms) * len(workload.seeds)
    arms, seeds = counted(workload.arms, "arm"), counted(workload.seeds, "seed")
    return f"{arms}, {seeds}, {counted(range(jobs), 'training job')}"
