"""`compilegate pipeline`: definitions, a workload's own and any other: compile, explain, run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from compilegate.cli.checks import design_of, image_bases, refuse_infeasible
from compilegate.cli.definitions import announce, compiled_here, placed
from compilegate.cli.options import (
    FILE,
    FOLDER,
    Project,
    image_option,
    named_place_options,
    output_option,
    parameter_option,
    parameter_pairs,
    pass_project,
    print_or_write,
    refuse_given,
    repeatable,
    with_options,
    workload_argument,
)
from compilegate.cli.run import (
    RunOptions,
    begun,
    end,
    followed,
    refuse_nothing_to_run,
    run_options,
)
from compilegate.cli.terminal.errors import refusing_os_errors
from compilegate.datasets import cache_folder
from compilegate.document.writing import compact
from compilegate.execution import exit_codes
from compilegate.local import ObjectStore, explanation_lines
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.images import image_folders
from compilegate.pipelines.staging.placement import Placement


@click.command("compile")
@workload_argument
@output_option
@click.option(
    "--objects",
    type=FOLDER,
    help="With --account: write what the definition needs in S3 to FOLDER/BUCKET.",
)
@named_place_options
@click.option("--settings", type=FILE, hidden=True)  # with `compilegate compile`, for this release
@click.option("--containers", type=FOLDER, hidden=True)
@pass_project
def compile_command(
    project: Project,
    workload: str,
    *,
    output: Path | None,
    objects: Path | None,
    settings: Path | None,
    containers: Path | None,
    **named: str | None,
) -> None:
    """Print a workload's SageMaker pipeline definition.

    \b
      compilegate pipeline compile news-topics -o definition.json
      compilegate pipeline compile news-topics --account 123456789012 --objects upload

    The same workload gives the same bytes in every run and on every machine; AWS is not called.
    Every step's request is checked against the service's own shapes. The account's names (bucket,
    roles, images) are stand-ins that a local run understands. With --account they are those that
    infra/settings.toml gives them in that account, for a definition that other tools than
    `make deploy` deploy; `compilegate aws roles` prints the roles that go with it. Where no
    candidate of such a design can pass the gate, a note says so.
    """
    from compilegate.gate.forecast import never_passing  # noqa: PLC0415  scipy takes time

    project = replace(
        project,
        settings_file=settings or project.settings_file,
        containers=containers or project.containers,
    )
    declared, path = project.load(workload)
    images = project.settings.images
    bases = image_bases(project.containers, images.base)
    if named["account"] is None:
        refuse_given({"--objects", "--region", "--key"}, "needs --account")
        refuse_infeasible(declared, path, bases=bases)
        definition, placement = compiled_here(project, declared, path)
    else:
        from compilegate.account.named import given_place  # noqa: PLC0415  boto3 takes time

        place = given_place(project.settings_file, **named)
        refuse_infeasible(declared, path, region=place.region, bases=bases)
        folders = image_folders(project.containers, images.base, images.pinned)
        tags = {name: folder.tag for name, folder in folders.items()}
        deployment = place.deployment(declared, tags)
        placement = placed(declared, path, project, deployment)
        definition = compile_definition(declared, deployment, placement.sources)
    # Why no candidate can pass, however equal, is known before anything trains.
    for reason in never_passing(declared.gate, design_of(declared, path)):
        announce(f"note: gate.{reason}")
    if objects is not None:
        _write_objects(placement, objects)
    print_or_write(definition, output)
    if output is not None:
        deployed = len(compact(definition).encode())
        announce(f"{output}: {len(definition.encode()):,} bytes, {deployed:,} as deployed")


def _write_objects(placement: Placement, folder: Path) -> None:
    """Write all that a definition needs in S3 as `FOLDER/BUCKET/KEY`, to be uploaded."""
    with refusing_os_errors():
        folder.mkdir(parents=True, exist_ok=True)
        placement.put(ObjectStore(folder.resolve()), cache_folder(), announce)
    bucket = placement.sources.training_archive.split("/")[2]
    announce(f"upload it with: aws s3 sync {folder / bucket} s3://{bucket}")


_stand_in_options = with_options(
    repeatable(
        "--function",
        "functions",
        metavar="PATTERN=FILE",
        help="The file that stands for Lambda functions whose ARN matches PATTERN: FILE.py, whose "
        "handler is lambda_handler, or FILE.py:HANDLER.",
    ),
    repeatable(
        "--model",
        "models",
        metavar="NAME=FILE",
        help="The model that Transform steps call NAME and no step makes: FILE is its "
        "description, JSON, as `aws sagemaker describe-model` prints it.",
    ),
    repeatable(
        "--command",
        "commands",
        metavar="STEP=COMMAND",
        help="Run this shell command for the step: it reads the request from the file "
        "$COMPILEGATE_REQUEST, and writes what the step gives to $COMPILEGATE_RESULT, both JSON.",
    ),
    repeatable(
        "--until", metavar="STEP", help="Carry out this step and what it needs, and nothing else."
    ),
    repeatable(
        "--skip",
        metavar="STEP",
        help="Leave this step out, and those that read what it gives; not those that only wait.",
    ),
    repeatable(
        "--data",
        metavar="s3://BUCKET[/KEY]=WHERE",
        help="A folder or file of this machine that stands for what lies there, or `later` where "
        "a program puts it there while it runs.",
    ),
)
"""What takes the place of steps, functions, models and data of a definition."""


@click.command("explain")
@click.argument("definition", metavar="FILE", type=FILE)
@parameter_option
@image_option
@_stand_in_options
@pass_project
def explain_command(project: Project, definition: Path, **given: Any) -> None:
    """Say what each step of a definition would do here, and start nothing.

    It takes what `compilegate pipeline run` takes, and ends with status 2 where that would refuse
    the definition: `compilegate pipeline explain pipeline.json --skip deploy`.
    """
    options = RunOptions(**given)
    executor = options.executor(project, _text(definition), explaining=True)
    explanation = executor.explain(_name(definition), parameter_pairs(options.parameters))
    click.echo("\n".join(explanation_lines(explanation)))
    if not explanation.runs:
        raise SystemExit(exit_codes.REFUSED)


@click.command("run")
@click.argument("definition", metavar="[FILE]", required=False, type=FILE)
@run_options
@_stand_in_options
@pass_project
def run_command(project: Project, definition: Path | None, **given: Any) -> None:
    """Execute a definition from elsewhere on this machine, unchanged.

    \b
      compilegate pipeline run pipeline.json                  execute it
      compilegate pipeline run pipeline.json --until train    and no further
      compilegate pipeline run pipeline.json --skip deploy    without a step
      compilegate pipeline run pipeline.json --resume         continue after a crash or Ctrl-C

    `-` reads the definition from standard input. What cannot run here is refused by name before
    anything starts; `compilegate pipeline explain` says the same and starts nothing.
    """
    options = RunOptions(**given)
    refuse_nothing_to_run(options, definition, "FILE is missing; name a definition's file")
    name, text = "", None
    if definition is not None:
        name = _name(definition)
        text = _text(definition) if options.resume is None else None
    executor, reference = begun(options, project, name, text)
    end(project, options, *followed(executor, reference, options))


def _text(path: Path) -> str:
    """What a definition's file holds, or standard input for `-`."""
    try:
        with click.open_file(str(path), encoding="utf-8") as file:
            return str(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"FILE: {path} cannot be read: {error}") from error


def _name(path: Path) -> str:
    """A pipeline's name from that of its file, which may not be valid for one."""
    return re.sub(r"[^a-zA-Z0-9]+", "-", path.stem).strip("-") or "definition"
