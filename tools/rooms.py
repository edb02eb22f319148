"""Print lines, files, commands and options by room, beside the budgets of docs/budgets.toml.

    .venv/bin/python tools/rooms.py

Exit status 1 when a finished room, or the command, is larger than it may be.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from compilegate.cli import main as compilegate

PROJECT = Path(__file__).parents[1]


@dataclass
class Room:
    """One room and its size."""

    name: str
    budget: int
    limit: int | None
    """The most lines, where the room is finished."""
    lines: int = 0
    files: int = 0

    @property
    def exceeded(self) -> bool:
        """Whether it is finished and larger than it may be."""
        return self.limit is not None and self.lines > self.limit


def main() -> int:
    """Print the tables."""
    rooms, most = measured(), declared()["command"]
    print(f"{'room':30} {'lines':>8} {'budget':>8} {'over':>6} {'limit':>8} {'files':>6}")
    for each in rooms:
        limit = "" if each.limit is None else f"{each.limit:,}"
        print_row(each.name, each.lines, each.budget, limit, each.files)
    lines, budget = sum(each.lines for each in rooms), sum(each.budget for each in rooms)
    print_row("all", lines, budget, "", sum(each.files for each in rooms))

    print(f"\n{'command':30} {'commands':>8} {'options':>8}")
    top = [found for found in commands() if len(found[0]) == 1]
    for (name,), command in top:
        below = sum(1 for _ in commands(command))
        print(f"{name:30} {below:8} {len(options(command)):8}")
    entries, given = len(top), len(options())
    print(f"{'all, with the root':30} {entries:8} {given:8}")

    exceeded = [f"{each.name}: {each.lines} lines" for each in rooms if each.exceeded]
    exceeded += [f"{entries} entries at the top"] if entries > most["entries"] else []
    exceeded += [f"{given} options"] if given > most["options"] else []
    for each in exceeded:
        print(f"docs/budgets.toml allows fewer: {each}", file=sys.stderr)
    return bool(exceeded)


def declared() -> dict[str, dict[str, int]]:
    """What docs/budgets.toml says."""
    return tomllib.loads((PROJECT / "docs/budgets.toml").read_text(encoding="utf-8"))


def measured() -> list[Room]:
    """Every room with its size. A file belongs to the deepest declared folder that holds it.

    Ends with a sentence at a file outside all of them.
    """
    at = {}
    for each in declared()["room"]:
        limit = max(each["budget"], each.get("reached", 0)) if each.get("finished") else None
        room = Room(each["name"], each["budget"], limit)
        at |= dict.fromkeys(each["folders"], room)
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.py"]
    found = subprocess.run(listed, cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, found.split("\0")):
        path = PROJECT / name
        if path.is_file() and not path.is_symlink():
            above = next((str(p) for p in Path(name).parents if str(p) in at), None)
            if above is None:
                sys.exit(f"{name} is in none of the folders of docs/budgets.toml")
            at[above].lines += path.read_bytes().count(b"\n")
            at[above].files += 1
    return list({id(room): room for room in at.values()}.values())


def commands(
    command: click.Command = compilegate, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Each command with the words that name it; imports them all."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None  # noqa: S101  it is in the list
            yield from commands(found, (*words, name))


def options(command: click.Command = compilegate) -> list[click.Option]:
    """The options of a command and of those below it, but for --help."""
    every = [each for _, one in commands(command) for each in one.params]
    return [each for each in every if isinstance(each, click.Option)]


def print_row(name: str, lines: int, budget: int, limit: str, files: int) -> None:
    """Print a line of the table of rooms."""
    over = f"{max(0.0, lines / budget - 1):.0%}"
    print(f"{name:30} {lines:8,} {budget:8,} {over:>6} {limit:>8} {files:6}")


if __name__ == "__main__":
    sys.exit(main())
