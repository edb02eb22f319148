"""`compilegate derive-images`: build what a program's requirements.txt asks for into images."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from compilegate.built_in import IMAGE_FOLDERS
from compilegate.cli.options.project import load_workload, project_options
from compilegate.cli.terminal.errors import RefusalError, found_in, writing
from compilegate.job.files import write_text
from compilegate.pipelines.staging import DerivedImage, derived_images, may_be_written
from compilegate.workload import read_workload

Settings = dict[str, dict[str, Any]]
"""What a workload's tables are to say, by the table's name."""


@click.command("derive-images")
@click.argument("workload", metavar="NAME|FILE")
@project_options
def command(workload: str, workloads: Path, containers: Path) -> None:
    """Derive image folders with what a program's requirements.txt asks for.

    \b
      compilegate derive-images mine

    Jobs install nothing when they start: a version that changed overnight would be a difference
    between arms. So the packages go into images. For each image that the workload's program runs
    in, a folder WORKLOAD-IMAGE is written in containers/, with the packages added, and the
    workload's file is changed to name these folders. Run it again when requirements.txt has
    changed.
    """
    declared, path = load_workload(workload, workloads)
    with found_in(path):
        derived = derived_images(declared, path.parent, containers)
    own = Path("containers") if containers == IMAGE_FOLDERS else containers
    taken = [own / each.name for each in derived if not may_be_written(own / each.name)]
    if taken:
        raise RefusalError(
            f"{taken[0]} is a folder that was not derived, allowed: to move it away, or to add the "
            "packages to it by hand"
        )
    with writing(str(own)):
        if own != containers and not own.exists():
            shutil.copytree(containers, own, symlinks=False)
            click.echo(f"{own}: the images that ship with Compilegate, to derive from")
        for each in derived:
            for name, text in each.files.items():
                write_text(own / each.name / name, text)
            click.echo(f"{own / each.name}: {each.source}, and what {path.stem} asks for")
        _name_in_workload(path, derived)


def _name_in_workload(path: Path, derived: list[DerivedImage]) -> None:
    """Change the workload's file, or say what to change where it is not written table by table."""
    wanted: Settings = {"program": {"requirements_in_image": True}}
    for each in derived:
        for key in each.keys:
            table, _, name = key.rpartition(".")
            wanted.setdefault(table, {})[name] = each.name
    text = path.read_text(encoding="utf-8")
    changed = text
    for table, settings in wanted.items():
        for key, value in settings.items():
            changed = with_setting(changed, table, key, value)
    if not _says(changed, text, wanted):
        click.echo(f"{path}: put these lines there")
        for table, settings in wanted.items():
            click.echo(f"  [{table}]")
            for key, value in settings.items():
                click.echo(f"  {key} = {_toml(value)}")
        return
    if changed != text:
        write_text(path, changed)
    read_workload(path)
    click.echo(f"{path}: names these images")


def with_setting(text: str, table: str, key: str, value: str | bool) -> str:
    """The file with `key = value` in a table that has a header of its own; as it was without."""
    header = re.compile(rf"^\[\s*{re.escape(table)}\s*\][ \t]*(#.*)?$", re.MULTILINE)
    found = header.search(text)
    if found is None:
        return text
    after = text[found.end() :]
    following = re.search(r"^\[", after, re.MULTILINE)
    end = len(text) if following is None else found.end() + following.start()
    body = text[found.end() : end]
    line = f"{key} = {_toml(value)}"
    given = re.compile(rf"^{key}[ \t]*=.*$", re.MULTILINE)
    body = given.sub(line, body, count=1) if given.search(body) else f"\n{line}{body}"
    return text[: found.end()] + body + text[end:]


def _says(changed: str, before: str, wanted: Settings) -> bool:
    """Whether the changed text says what is wanted, and otherwise what it said before."""
    try:
        now, expected = tomllib.loads(changed), tomllib.loads(before)
    except tomllib.TOMLDecodeError:
        return False
    for table, settings in wanted.items():
        place: Any = expected
        for part in table.split("."):
            place = place.get(part) if isinstance(place, Mapping) else None
        if not isinstance(place, dict):
            return False
        place.update(settings)
    return now == expected


def _toml(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'
