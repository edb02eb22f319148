"""Print the sizes of rooms beside the budgets of docs/budgets.toml, of commands and documents.

    .venv/bin/python tools/rooms.py

Small files have fewer than SMALL lines; package markers, entry points and workloads do not count.
Exit status 1 when a finished room, or the command, is larger than it may be.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from compilegate.cli import main as compilegate

PROJECT = Path(__file__).parents[1]
SMALL = 40
MAY_BE_SMALL = re.compile(r"(^|/)(__init__|__main__|conftest)\.py$|^workloads/")
GENERATED = re.compile(r"<!-- (\w+): (?!end)[\w.-]+ -->.*?<!-- \1: end -->", re.DOTALL)


@dataclass
class Room:
    """One room and its size."""

    name: str
    budget: int
    limit: int | None
    """The most lines, where the room is finished."""
    lines: int = 0
    files: int = 0
    small: int = 0


def main() -> int:
    """Print the tables."""
    rooms, most = measured(), declared()["command"]
    print(
        f"{'room':30} {'lines':>8} {'budget':>8} {'over':>6} {'limit':>8} {'files':>6} {'small':>6}"
    )
    for each in rooms:
        print_room(each)
    names = ("budget", "lines", "files", "small")
    sums = {name: sum(getattr(each, name) for each in rooms) for name in names}
    print_room(Room("all", limit=None, **sums))

    print("\ndocuments")
    for name, count in documents().items():
        print(f"{name:30} {count:8,}")

    print(f"\n{'command':30} {'commands':>8} {'options':>8}")
    top = [found for found in commands() if len(found[0]) == 1]
    for (name,), command in top:
        below = sum(1 for _ in commands(command))
        print(f"{name:30} {below:8} {len(options(command)):8}")
    entries, count = len(top), len(options())
    print(f"{'all, with the root':30} {entries:8} {count:8}")

    exceeded = [f"{it.name}: {it.lines} lines" for it in rooms if it.lines > (it.limit or it.lines)]
    exceeded += [f"{entries} entries at the top"] if entries > most["entries"] else []
    exceeded += [f"{count} options"] if count > most["options"] else []
    for each in exceeded:
        print(f"docs/budgets.toml allows fewer: {each}", file=sys.stderr)
    return bool(exceeded)


def declared() -> dict[str, dict[str, int]]:
    """The tables of docs/budgets.toml."""
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
            lines = path.read_bytes().count(b"\n")
            at[above].lines += lines
            at[above].files += 1
            at[above].small += lines < SMALL and not MAY_BE_SMALL.search(name)
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


def documents() -> dict[str, int]:
    """Words of the hand-written pages, without generated parts; lines of the two guides."""
    docs = PROJECT / "docs"
    pages = set(docs.glob("*.md")) - set(docs.glob("*-reference.md")) - {docs / "SECURITY.md"}
    texts = [GENERATED.sub("", page.read_text(encoding="utf-8")) for page in pages]
    found = {"pages": len(texts), "words": sum(len(text.split()) for text in texts)}
    for name in ("README.md", "CONTRIBUTING.md"):
        found[f"lines of {name}"] = len((PROJECT / name).read_text(encoding="utf-8").splitlines())
    return found


def print_room(room: Room) -> None:
    """Print a line of the table of rooms."""
    over = f"{max(0.0, room.lines / room.budget - 1):.0%}"
    limit = "" if room.limit is None else f"{room.limit:,}"
    sizes = f"{room.lines:8,} {room.budget:8,} {over:>6} {limit:>8}"
    print(f"{room.name:30} {sizes} {room.files:6} {room.small:6}")


if __name__ == "__main__":
    sys.exit(main())
