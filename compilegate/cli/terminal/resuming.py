"""The command that continues an execution, whole: it can be copied as it stands."""

from __future__ import annotations

import shlex

import click
from click.core import ParameterSource

KEPT = (
    *(
        "images",
        "functions",
        "models",
        "commands",
        "variables",
        "data",
        "no_cache",
        "cores_per_job",
    ),
    *("max_parallel", "home", "containers"),
)
"""The options of `compilegate run` that a resumed execution needs again. Its definition, arms and
parameters are its own."""


def resume_command(execution_id: str, context: click.Context | None = None) -> str:
    """The command; `context` is that of `compilegate run`, whose options are given again."""
    words = ["compilegate", "run", "--resume", "--execution", execution_id]
    if context is not None:
        words += [word for option in context.command.params for word in _given(option, context)]
    return shlex.join(words)


def _given(option: click.Parameter, context: click.Context) -> list[str]:
    """The words that gave an option on the command line; none if it has its default."""
    name = str(option.name)
    asked = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    if name not in KEPT or not asked:
        return []
    value = context.params[name]
    if value is True:
        return [option.opts[0]]
    values = value if isinstance(value, tuple) else (value,)
    return [word for each in values for word in (option.opts[0], str(each))]
