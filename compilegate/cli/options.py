"""What several commands take: the project, parameters, images; and what the Tab key offers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from compilegate.built_in import IMAGE_FOLDERS
from compilegate.cli.terminal.errors import writing
from compilegate.job.files import write_text

if TYPE_CHECKING:  # what these import takes half a second
    from compilegate.account.settings import Settings
    from compilegate.workload import Workload

Command = TypeVar("Command", bound=Callable[..., Any])
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
HOME = ".compilegate"


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

    def deployed_workloads(self, settings: Settings) -> list[tuple[Workload, Path]]:
        """The workloads that a deployment of this project has, each with its file: those that the
        settings name, or else all."""
        from compilegate.workload import find_workload, read_workload  # noqa: PLC0415

        paths = (
            [find_workload(name, self.workloads) for name in settings.workloads]
            if settings.workloads
            else sorted(self.workloads.glob("*.toml"))
        )
        return [(read_workload(path), path) for path in paths]


def project_of(context: click.Context) -> Project:
    """The project that the root's options name."""
    given = context.find_root().params
    folder = Path(given.get("project") or ".")
    own = folder / "containers"
    return Project(
        workloads=folder / "workloads",
        containers=own if any(own.glob("*/requirements.txt")) else IMAGE_FOLDERS,
        settings_file=folder / "infra" / "settings.toml",
        home=Path(given.get("home") or folder / HOME),
        aws=bool(given.get("of_account")),
    )


def pass_project(command: Command) -> Command:
    """Give a command the project as its first argument."""

    @wraps(command)
    def with_project(*args: Any, **kwargs: Any) -> Any:
        return command(project_of(click.get_current_context()), *args, **kwargs)

    return with_project  # pyrefly: ignore[bad-return]


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


workload_argument = click.argument(
    "workload", metavar="NAME|FILE", shell_complete=completing("workload")
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
open_option = click.option(
    "--open", "open_page", is_flag=True, help="Show the report in the browser at the end."
)
output_option = click.option(
    "--output", "-o", type=FILE, help="Write to this file instead of printing."
)
region_option = click.option(
    "--region", help="The AWS region; by default that of infra/settings.toml."
)
parameter_option = click.option(
    "--parameter",
    "-p",
    "parameters",
    metavar="NAME=VALUE",
    multiple=True,
    help="Set a pipeline parameter; may be given several times.",
)
image_option = click.option(
    "--image",
    "images",
    metavar="PATTERN=WHERE",
    multiple=True,
    help="Where to run images whose URI matches PATTERN: `here` (this Python environment), a "
    "folder with a requirements.txt, or a Python executable. May be given several times.",
)


class Bytes(click.ParamType[int]):
    """An amount of bytes, such as 800MB or 2GB."""

    name = "SIZE"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)b?", value.strip().lower())
        if found is None:
            self.fail(f"{value!r} is not a size, allowed: a number with MB or GB", param, ctx)
        return int(float(found[1]) * {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}[found[2]])


class Age(click.ParamType[float]):
    """A time in seconds, such as 12h or 30d."""

    name = "AGE"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([hd])", value.strip().lower())
        if found is None:
            self.fail(f"{value!r} is not an age, allowed: hours or days, as in 12h or 30d", param)
        return float(found[1]) * {"h": 3600.0, "d": 86400.0}[found[2]]


def job_file_option(what: str) -> Callable[[Command], Command]:
    """`--output` of a command whose jobs run here, or are written down for SageMaker."""
    return click.option(
        "--output",
        "-o",
        type=FILE,
        help=f"{what}: write its jobs as a pipeline definition to this file, and run nothing; with "
        "--aws as they are deployed.",
    )


def named_place_options(command: Command) -> Command:
    """Add `--account`, `--region` and `--key`: an account that is only named."""
    for option in (
        click.option(
            "--key",
            metavar="ARN",
            help="The key of bucket and volumes. By default storage.key_arn.",
        ),
        region_option,
        click.option("--account", help="Twelve digits. By default that of the settings."),
    ):
        command = option(command)
    return command


def name_value_pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    """The values of an option that takes NAME=VALUE; the last one for a name counts."""
    pairs: dict[str, str] = {}
    for item in given:
        # Neither an image's pattern nor a parameter's name contains `=`.
        name, separator, value = item.partition("=")
        if not separator or not name:
            raise click.UsageError(f"{option}: found {item!r}, allowed: NAME=VALUE")
        pairs[name] = value
    return pairs


def parameter_pairs(given: tuple[str, ...]) -> dict[str, str]:
    """The parameters' values by name; refuses what is not NAME=VALUE."""
    return name_value_pairs("--parameter", given)


def refuse_given(options: Mapping[str, object], why: str) -> None:
    """Refuse the first of these options that was given."""
    for option, value in options.items():
        if value:
            raise click.UsageError(f"{option}: {why}")


def print_or_write(text: str, output: Path | None) -> None:
    """Print a document, or write it to the file of `--output`, whose folder must exist."""
    if output is None:
        click.echo(text, nl=False)
        return
    with writing(f"--output: {output}", output.parent):
        write_text(output, text)
