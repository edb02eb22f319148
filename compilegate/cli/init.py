"""`compilegate init`: begin a project, or add a workload to one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from compilegate.cli.options import EXISTING, Project, pass_project, refuse_given
from compilegate.cli.printing import RefusalError
from compilegate.init.project import (
    Started,
    from_script,
    from_table,
    with_built_in_data,
    write_files,
)
from compilegate.init.table import TABLES, UnclearLabelError
from compilegate.workload import find_workload, read_workload

OTHER_FILES = (".xlsx", ".xls", ".ods", ".txt", ".json", ".zip")
"""Endings of files, which no model of the hub has."""
_OF_KIND = {"table": {"--model", "--text", "--label"}, "script": {"--data"}}


@click.command("init")
@click.argument("source", metavar="[SOURCE]", required=False)
@click.option("--model", help="With a table: fine-tune this model of the Hugging Face hub on it.")
@click.option("--text", metavar="COLUMN", help="With a table: the column of texts.")
@click.option("--label", metavar="COLUMN", help="With a table: the column to learn.")
@click.option("--data", type=EXISTING, help="With a script: the file or folder that it reads.")
@click.option("--name", help="The workload's name; by default made from what is given.")
@pass_project
def command(project: Project, **given: Any) -> None:
    """Begin a project, or add a workload to one.

    \b
      compilegate init reviews.csv                  learn a column of your table
      compilegate init reviews.csv --model MODEL    the same, from a model of the hub
      compilegate init train.py --data images       bring a training script of yours
      compilegate init distilbert-base-uncased      fine-tune a model of the Hugging Face hub
      compilegate init                              begin with data that come along

    A table is a .csv, .tsv, .jsonl or .parquet file, and a script a .py file. Writes the workload
    with comments, the files that deploy it, the images its jobs run in, and a workflow for GitHub,
    all into the folder of --project. Nothing that exists is overwritten.
    """
    folder = project.workloads.parent
    started = _started(**given)
    written, unchanged = write_files(started, folder)
    declared = read_workload(find_workload(started.name, project.workloads))
    for sentence in started.notes:
        click.echo(sentence)
    click.echo("")
    # A folder of images once, and every other file.
    for path in dict.fromkeys(
        f"{path.rpartition('/')[0]}/" if path.startswith("containers/") else path
        for path in written
    ):
        click.echo(f"  wrote  {path}")
    if unchanged:
        click.echo(f"  kept   {', '.join(unchanged)}")
    click.echo(_what_next(started, folder, len(declared.seeds) * len(declared.arms)))


def _started(source: str | None, *, data: Path | None, name: str | None, **of: Any) -> Started:
    """What is to be written, by the kind of the source. Refuses what does not go together."""
    path = Path(source or "")
    kind = "table" if path.suffix.lower() in TABLES else "script" if path.suffix == ".py" else ""
    for needed, options in _OF_KIND.items():
        if kind != needed:
            refuse_given(options, f"needs a SOURCE that is a {needed}")
    if kind and not path.is_file():
        raise RefusalError(f"SOURCE is {path}, which is not a file")
    if kind == "script":
        return from_script(path, name=name, data=data)
    if kind == "table":
        return _from_table(path, name=name, **of)
    if path.is_file() or path.suffix in OTHER_FILES:
        raise RefusalError(f"SOURCE is {path}, expected {', '.join(TABLES)}, .py, or a model")
    if source and path.is_dir() and not (path / "config.json").is_file():
        raise RefusalError(f"SOURCE is the folder {path}, expected one with a model's config.json")
    return with_built_in_data(source and _model(source), name=name)


def _from_table(path: Path, *, label: str | None, model: str | None, **of: Any) -> Started:
    """A workload of a table; who sits at a terminal is asked for a label that is unclear."""
    base = None if model is None else _model(model)
    try:
        return from_table(path, label=label, model=base, **of)
    except UnclearLabelError as error:
        if not on_terminal():
            raise
        label = click.prompt("Which column is to be learned", type=click.Choice(error.candidates))
        return from_table(path, label=label, model=base, **of)


def on_terminal() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin.isatty()


def _model(name: str) -> str:
    """Jobs run in other folders: a model's folder goes by its whole path, a hub's name as it is."""
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def _what_next(started: Started, folder: Path, jobs: int) -> str:
    there = "" if folder == Path() else f"  cd {folder}\n"
    by_hand = "".join(f"  {line}\n" for line in started.by_hand)
    first = f"First, add the lines that report to the gate: {by_hand}\n" if by_hand else ""
    name = started.name
    return (
        f"\n{first}Then:\n{there}"
        f"  compilegate validate {name}   # checks the file and the data\n"
        f"  compilegate run {name}        # trains {jobs} jobs here, judges them, writes a page\n"
        "\nOn SageMaker, later: name the account in infra/settings.toml, then\n"
        "  pip install 'compilegate[infra]' && npm install\n"
        "  npx cdk bootstrap && npx cdk deploy --all\n"
        f"  compilegate aws submit {name} --wait"
    )
