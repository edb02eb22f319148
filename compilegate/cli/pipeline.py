"""`compilegate pipeline`: definitions, a workload's own and any other: compile, explain, run."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from compilegate.cli.checks import image_bases, never_passing, refuse_infeasible
from compilegate.cli.definitions import compiled, place_by_name, place_locally, put_objects
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
    workload_argument,
)
from compilegate.cli.run import NEWEST, RunOptions, end, followed, resumed, run_options
from compilegate.cli.terminal.origin import note_origin
from compilegate.document.writing import compact
from compilegate.execution import exit_codes
from compilegate.local import explanation_lines

Command = TypeVar("Command", bound=Callable[..., Any])


@click.command("compile")
@workload_argument
@output_option
@click.option(
    "--objects",
    type=FOLDER,
    help="With --account: write what the definition needs in S3 to FOLDER/BUCKET.",
)
@named_place_options
@click.option("--settings", type=FILE, hidden=True)
@click.option("--containers", type=click.Path(exists=True, path_type=Path), hidden=True)
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
    project = replace(
        project,
        settings_file=settings or project.settings_file,
        containers=containers or project.containers,
    )
    declared, path = project.load(workload)
    bases = image_bases(project.containers, project.settings.images.base)
    if named["account"] is None:
        for option, given in (("objects", objects), *named.items()):
            if given is not None:
                raise click.UsageError(f"--{option}: found it alone, allowed: with --account")
        refuse_infeasible(declared, path, bases=bases)
        deployment, placement = place_locally(declared, path, project)
    else:
        from compilegate.account.named.place import given_place  # noqa: PLC0415  boto3 takes time

        place = given_place(project.settings_file, **named)
        refuse_infeasible(declared, path, region=place.region, bases=bases)
        deployment, placement = place_by_name(declared, path, project, place)
    for reason in never_passing(declared, path):
        click.echo(f"note: {reason}", err=True)
    definition = compiled(declared, deployment, placement.sources)
    if objects is not None:
        put_objects(placement, objects)
    print_or_write(definition, output)
    if output is not None:
        deployed = len(compact(definition).encode())
        size = len(definition.encode())
        click.echo(f"{output}: {size:,} bytes, {deployed:,} as deployed", err=True)


def _stand_in_options(command: Command) -> Command:
    """Add what takes the place of steps, functions, models and data of a definition."""
    for option in reversed(
        (
            click.option(
                "--function",
                "functions",
                metavar="PATTERN=FILE",
                multiple=True,
                help="The file that stands for Lambda functions whose ARN matches PATTERN: "
                "FILE.py, whose handler is lambda_handler, or FILE.py:HANDLER. May be given "
                "several times.",
            ),
            click.option(
                "--model",
                "models",
                metavar="NAME=FILE",
                multiple=True,
                help="The model that Transform steps call NAME and no step makes: FILE is its "
                "description, JSON, as `aws sagemaker describe-model` prints it. May be given "
                "several times.",
            ),
            click.option(
                "--command",
                "commands",
                metavar="STEP=COMMAND",
                multiple=True,
                help="Run this shell command for the step: it reads the request from the file "
                "$COMPILEGATE_REQUEST, and writes what the step gives to $COMPILEGATE_RESULT, both "
                "JSON. May be given several times.",
            ),
            click.option(
                "--until",
                metavar="STEP",
                multiple=True,
                help="Carry out this step and what it needs, and nothing else. May be given "
                "several times.",
            ),
            click.option(
                "--skip",
                metavar="STEP",
                multiple=True,
                help="Leave this step out, and the steps that read what it gives. Steps that only "
                "wait for it go on. May be given several times.",
            ),
            click.option(
                "--data",
                metavar="s3://BUCKET[/KEY]=WHERE",
                multiple=True,
                help="A folder or file of this machine that stands for what lies there, or `later` "
                "where a program puts it there while it runs. May be given several times.",
            ),
        )
    ):
        command = option(command)
    return command


@click.command("explain")
@click.argument("definition", metavar="FILE", type=FILE)
@parameter_option
@image_option
@_stand_in_options
@pass_project
def explain_command(project: Project, definition: Path, **given: Any) -> None:
    """Say what each step of a definition would do here, and start nothing.

    \b
      compilegate pipeline explain pipeline.json                what runs, what is refused and why
      compilegate pipeline explain pipeline.json --skip deploy  without a step

    It takes what `compilegate pipeline run` takes, and ends with status 2 where that would refuse
    the definition.
    """
    options = RunOptions(**given)
    executor = options.executor(project, _text(definition), explaining=True)
    explanation = executor.explain(_name(definition), parameter_pairs(options.parameters))
    for line in explanation_lines(explanation):
        click.echo(line)
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
    if definition is None and options.resume in {None, NEWEST}:
        raise click.UsageError("FILE is missing, allowed: a definition's file, or --resume ID")
    if options.resume and (options.until or options.skip):
        raise click.UsageError(
            "--until, --skip: a resumed execution keeps the choice it was started with"
        )
    if sys.stdout.isatty():  # what comes next may take seconds
        click.echo(f"checking {definition or options.resume}")
    name = "" if definition is None else _name(definition)
    if options.resume is None:
        executor = options.executor(project, _text(Path(str(definition))))
        reference = executor.start(name, parameter_pairs(options.parameters))
        note_origin(executor.read(reference).folder)
    else:
        executor, reference = resumed(options, project, name)
    result, status = followed(executor, reference, options)
    end(project, options, result, status)


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
