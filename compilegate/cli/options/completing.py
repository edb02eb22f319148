"""What the Tab key offers for an argument: workloads, IDs, models.

It is read from file names alone: a Tab must not wait.
"""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem


def complete_workload(
    context: click.Context, _argument: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names in the folder of workloads, and files, which may be named too."""
    folder = Path(context.params.get("workloads") or "workloads")
    names = sorted(path.stem for path in folder.glob("*.toml"))
    items = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return items or [CompletionItem(incomplete, type="file")]


def complete_execution(
    context: click.Context, _argument: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The IDs of the executions on this machine."""
    paths = (_home(context) / "executions").glob("*/execution.json")
    return _beginning_with(incomplete, [path.parent.name for path in paths])


def complete_package(
    context: click.Context, _argument: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The registered models on this machine, as GROUP/VERSION."""
    paths = (_home(context) / "registry").glob("*/*.json")
    return _beginning_with(incomplete, [f"{path.parent.name}/{path.stem}" for path in paths])


def complete_group(
    context: click.Context, _argument: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The groups of registered models."""
    paths = (_home(context) / "registry").glob("*/*.json")
    return _beginning_with(incomplete, list({path.parent.name for path in paths}))


def _beginning_with(incomplete: str, names: list[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _home(context: click.Context) -> Path:
    """`--home`, which may be given at the command or at the group above it."""
    contexts: list[click.Context] = []
    asked: click.Context | None = context
    while asked is not None:
        contexts.append(asked)
        asked = asked.parent
    homes = [each for each in contexts if each.params.get("home")]
    given = [each for each in homes if each.get_parameter_source("home") != ParameterSource.DEFAULT]
    return Path(next((each.params["home"] for each in [*given, *homes]), ".compilegate"))
