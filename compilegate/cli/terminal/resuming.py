"""The command that continues an execution, whole: it can be copied as it stands."""

from __future__ import annotations

import shlex

import click
from click.core import ParameterSource


def resume_command(execution_id: str, context: click.Context | None = None) -> str:
    """The command. An execution keeps its options, so only the home need be given again, if it was
    on the command line of `context`."""
    words = ["compilegate", "run", "--resume", "--execution", execution_id]
    if context is not None and context.get_parameter_source("home") is ParameterSource.COMMANDLINE:
        words += ["--home", str(context.params["home"])]
    return shlex.join(words)
