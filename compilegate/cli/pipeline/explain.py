"""`compilegate explain`: what each step of a definition would do on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from compilegate.cli.options.home import home_option
from compilegate.cli.options.jobs import data_option, data_pairs
from compilegate.cli.options.parameters import name_value_pairs, parameter_option, parameter_pairs
from compilegate.cli.options.project import containers_option
from compilegate.cli.pipeline.selecting import selection_options
from compilegate.cli.pipeline.sources import (
    definition_name,
    definition_text,
    function_sources,
    given_models,
    image_sources,
    source_options,
)
from compilegate.execution import exit_codes
from compilegate.local import LocalExecutor, Selection, explanation_lines


@click.command("explain")
@click.argument("definition", type=click.Path(dir_okay=False, path_type=Path))
@parameter_option
@source_options
@selection_options
@data_option
@home_option
@containers_option
def command(  # noqa: PLR0917  one argument for each option
    definition: Path,
    parameters: tuple[str, ...],
    images: tuple[str, ...],
    functions: tuple[str, ...],
    models: tuple[str, ...],
    data: tuple[str, ...],
    until: tuple[str, ...],
    skip: tuple[str, ...],
    commands: tuple[str, ...],
    home: Path,
    containers: Path,
) -> None:
    """Say what each step of a definition would do here, and start nothing.

    \b
      compilegate explain pipeline.json                  what runs where, what is refused and why
      compilegate explain pipeline.json --skip deploy    without a step

    It takes what `compilegate run --definition` takes, and ends with status 2 where that would
    refuse the definition.
    """
    text = definition_text("DEFINITION", str(definition))
    executor = LocalExecutor(
        home=home,
        images=image_sources(images, containers),
        functions=function_sources(functions, home),
        given_models=given_models(models),
        later=list(data_pairs(data)),
        commands=name_value_pairs("--command", commands),
        definition=text,
        selection=Selection(until, skip),
    )
    explanation = executor.explain(definition_name(definition), parameter_pairs(parameters))
    for line in explanation_lines(explanation):
        click.echo(line)
    if not explanation.runs:
        raise SystemExit(exit_codes.REFUSED)
