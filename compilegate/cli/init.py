"""`compilegate init`: begin a project, or add a workload to one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from compilegate.cli.terminal.errors import RefusalError, refusing_os_errors
from compilegate.init import (
    Started,
    from_hub,
    from_script,
    from_table,
    with_built_in_data,
    write_files,
)
from compilegate.workload import find_workload, read_workload

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("init")
@click.argument(
    "folder", default=".", type=click.Path(file_okay=False, path_type=Path), metavar="[FOLDER]"
)
@click.option("--csv", "table", type=FILE, help="Learn from a table: .csv, .jsonl or .parquet.")
@click.option("--script", type=FILE, help="Train with a script of yours.")
@click.option("--hf", "model", metavar="MODEL", help="Fine-tune a model of the Hugging Face hub.")
@click.option("--text", metavar="COLUMN", help="With --csv: the column of texts.")
@click.option("--label", metavar="COLUMN", help="With --csv: the column to learn.")
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    help="With --script: the file or folder that it reads.",
)
@click.option("--name", help="The workload's name; by default made from what is given.")
def command(**given: Any) -> None:
    """Begin a project in a folder, or add a workload to one.

    \b
      compilegate init --csv reviews.csv                 learn a column of your table
      compilegate init --csv reviews.csv --hf MODEL      the same, from a model of the hub
      compilegate init --script train.py --data images   bring a training script of yours
      compilegate init                                   begin with data that come along

    Writes the workload with comments, the files that deploy it, the images its jobs run in, and a
    workflow for GitHub. Nothing that exists is overwritten.
    """
    asked = _Asked(**given)
    asked.refuse_what_does_not_go_together()
    folder = asked.folder
    with refusing_os_errors():
        started = asked.started()
        done = write_files(started, folder)
    path = find_workload(started.name, folder / "workloads")
    jobs = len(read_workload(path).seeds) * len(read_workload(path).arms)
    for sentence in started.told:
        click.echo(sentence)
    click.echo("")
    for written in _in_short(done.written):
        click.echo(f"  wrote  {written}")
    if done.kept:
        click.echo(f"  kept   {', '.join(done.kept)}")
    click.echo(_what_next(started, folder, jobs))


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """The command's options."""

    folder: Path
    table: Path | None
    script: Path | None
    model: str | None
    text: str | None
    label: str | None
    data: Path | None
    name: str | None

    def refuse_what_does_not_go_together(self) -> None:
        if self.script is not None and (self.table is not None or self.model is not None):
            raise RefusalError("--script: found beside --csv or --hf, allowed: one of them")
        for option, value, needed, said in (
            ("text", self.text, self.table, "--csv"),
            ("label", self.label, self.table, "--csv"),
            ("data", self.data, self.script, "--script"),
        ):
            if value is not None and needed is None:
                raise RefusalError(f"--{option}: found without {said}, allowed: with it")

    def started(self) -> Started:
        # Jobs run in other folders: a model's folder goes by its whole path, a hub's name as it is.
        local = self.model is not None and Path(self.model).is_dir()
        model = str(Path(str(self.model)).resolve()) if local else self.model
        if self.script is not None:
            return from_script(self.script, name=self.name, data=self.data)
        if self.table is not None:
            return from_table(
                self.table, name=self.name, text=self.text, label=self.label, model=model
            )
        if model is not None:
            return from_hub(model, name=self.name)
        return with_built_in_data(name=self.name)


def _in_short(paths: tuple[str, ...]) -> list[str]:
    """Each file, but a folder of images once."""
    return list(
        dict.fromkeys(
            path.rpartition("/")[0] + "/" if path.startswith("containers/") else path
            for path in paths
        )
    )


def _what_next(started: Started, folder: Path, jobs: int) -> str:
    there = "" if folder == Path() else f"  cd {folder}\n"
    by_hand = "".join(f"  {line}\n" for line in started.first)
    first = (
        f"First, the lines that tell the gate what the script does:\n{by_hand}\n" if by_hand else ""
    )
    name = started.name
    return (
        f"\n{first}Then:\n{there}"
        f"  compilegate validate {name}   # checks the file and the data\n"
        f"  compilegate run {name}        # trains {jobs} jobs here, judges them, writes a page\n"
        "\nOn SageMaker, later: name the account in infra/settings.toml, then\n"
        "  pip install 'compilegate[infra]' && npm install\n"
        "  npx cdk bootstrap && npx cdk deploy --all\n"
        f"  compilegate submit {name} --wait"
    )
