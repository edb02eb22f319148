"""What several commands take: the project, arguments, options; and what the Tab key offers.

A decorator is named after the parameter that it adds to a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from compilegate.built_in import IMAGE_FOLDERS

if TYPE_CHECKING:  # what these import takes half a second
    from compilegate.account.settings import Settings
    from compilegate.workload import Workload

Command = TypeVar("Command", bound=Callable[..., Any])
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
EXISTING = click.Path(exists=True, path_type=Path)
EXISTING_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@dataclass(frozen=True, kw_only=True)
class Project:
    """The folders that commands read and write, by `--project`, `--home` and `--aws`."""

    workloads: Path
    containers: Path
    """One folder for each image: the project's own, or else those that ship with Compilegate."""
    settings_file: Path
    home: Path
    aws: bool
    """Whether the account is meant, and not this machine."""

    @property
    def settings(self) -> Settings:
        """The project's settings; the defaults if it has none."""
        from compilegate.account.settings import read_settings  # noqa: PLC0415

        return read_settings(self.settings_file)

    def load(self, name_or_path: str) -> tuple[Workload, Path]:
        """The checked workload and its file; refuses what is wrong with it."""
        from compilegate.workload import find_workload, read_workload  # noqa: PLC0415

        path = find_workload(name_or_path, self.workloads)
        return read_workload(path), path

    def deployed_names(self, settings: Settings) -> list[str]:
        """The workloads that a deployment of this project has: those that the settings name, or
        else all."""
        declared = settings.workloads
        return list(declared or sorted(path.stem for path in self.workloads.glob("*.toml")))

    def deployed_workloads(self, settings: Settings) -> list[tuple[Workload, Path]]:
        """The same, each with its file."""
        return [self.load(name) for name in self.deployed_names(settings)]


def project_of(context: click.Context) -> Project:
    """The project that the root's options name."""
    given = context.find_root().params
    folder = Path(given.get("project") or ".")
    own = folder / "containers"
    return Project(
        workloads=folder / "workloads",
        containers=own if any(own.glob("*/requirements.txt")) else IMAGE_FOLDERS,
        settings_file=folder / "infra" / "settings.toml",
        home=Path(given.get("home") or folder / ".compilegate"),
        aws=bool(given.get("use_account")),
    )


pass_project = click.make_pass_decorator(Project)
"""Gives a command the project as its first argument."""

_NAMES: dict[str, Callable[[Project], Iterable[str]]] = {
    "workload": lambda it: (path.stem for path in it.workloads.glob("*.toml")),
    "execution": lambda it: (
        path.parent.name for path in it.home.glob("executions/*/execution.json")
    ),
    "package": lambda it: (
        f"{path.parent.name}/{path.stem}" for path in it.home.glob("registry/*/*.json")
    ),
    "group": lambda it: (path.parent.name for path in it.home.glob("registry/*/*.json")),
}


def completing(
    *kinds: str,
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """What the Tab key offers for an argument: names of these kinds, read from file names alone,
    for a Tab must not wait. A workload may be a file, too."""

    def complete(
        context: click.Context, _argument: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        names = {name for kind in kinds for name in _NAMES[kind](project_of(context))}
        found = [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]
        files = [CompletionItem(incomplete, type="file")] if kinds == ("workload",) else []
        return found or files

    return complete


def together(*added: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator."""

    def add(command: Command) -> Command:
        for option in reversed(added):
            command = option(command)
        return command

    return add


def repeatable(*names: str, metavar: str, help: str, **more: Any) -> Callable[[Command], Command]:
    """An option that may be given several times."""
    text = f"{help} May be given several times."
    return click.option(*names, metavar=metavar, multiple=True, help=text, **more)


def pairs(
    *names: str,
    metavar: str = "NAME=VALUE",
    pattern: str = r"([^=]+)=(.*)",
    form: str | None = None,
    help: str,
) -> Callable[[Command], Command]:
    """An option NAME=VALUE that may be given several times: the values by name, the last for each.
    Refuses what does not match the pattern, with the form that it describes."""

    def parse(_context: click.Context, _option: object, given: Iterable[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for item in given:
            match = re.fullmatch(pattern, item, re.DOTALL)
            if match is None:
                raise click.UsageError(f"{names[0]} is {item!r}, expected {form or metavar}")
            found[match[1]] = match[2]
        return found

    return repeatable(*names, metavar=metavar, help=help, callback=parse)


workload = click.argument("workload", metavar="NAME|FILE", shell_complete=completing("workload"))
optional_workload = click.argument(
    "workload", metavar="[NAME|FILE]", required=False, shell_complete=completing("workload")
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
open_page = click.option(
    "--open", "open_page", is_flag=True, help="Show the report in the browser at the end."
)
output = click.option("--output", "-o", type=FILE, help="Write to this file instead of printing.")
region = click.option("--region", help="The AWS region; by default that of infra/settings.toml.")
parameters = pairs("--parameter", "-p", "parameters", help="Set a pipeline parameter.")
images = pairs(
    "--image",
    "images",
    metavar="PATTERN=WHERE",
    help="Where to run images whose URI matches PATTERN: `here` (this Python environment), a "
    "folder with a requirements.txt, or a Python executable.",
)
named_place = together(
    click.option("--account", help="The account, twelve digits (default: that of the settings)."),
    region,
    click.option(
        "--key",
        metavar="ARN",
        help="The KMS key of the bucket and the volumes (default: storage.key_arn).",
    ),
)
job_file = click.option(
    "--output",
    "-o",
    type=FILE,
    help="With NAME: write its jobs as a pipeline definition to this file, and run nothing; with "
    "--aws as they are deployed.",
)


class Quantity(click.ParamType[int]):
    """A number with a unit, such as 800MB or 30d."""

    def __init__(self, name: str, units: Mapping[str, int], expected: str) -> None:
        self.name, self.units, self.expected = name, units, expected

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]*)", value.strip().lower())
        if found is None or found[2] not in self.units:
            self.fail(f"{value!r} is not {self.expected}", param, ctx)
        return int(float(found[1]) * self.units[found[2]])


BYTES = Quantity(
    "SIZE",
    {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "k": 10**3, "m": 10**6, "g": 10**9},
    "a size; give a number with MB or GB",
)
AGE = Quantity("AGE", {"h": 3600, "d": 86400}, "an age; give hours or days, as in 12h or 30d")
"""In seconds."""


def one_of(name: str | None, *, flag: bool, otherwise: str) -> None:
    """Refuse a command line with both or neither of a workload and an option in its place."""
    if (name is None) is not flag:
        raise click.UsageError(f"name one workload, or give {otherwise}")


def refuse_given(names: Collection[str], why: str) -> None:
    """Refuse the first of these that the command line has: an option (`--aws`, too), or an argument
    by the first word of its metavar."""
    context = click.get_current_context()
    for level in (context, context.find_root()):
        for each in level.command.params:
            name = each.human_readable_name.strip("[.]").partition("|")[0]
            name = each.opts[0] if isinstance(each, click.Option) else name
            given = level.get_parameter_source(str(each.name)) is ParameterSource.COMMANDLINE
            if given and name in names:
                raise click.UsageError(f"{name} {why}")
