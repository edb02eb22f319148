"""`compilegate completion`: the Tab key completes commands, options, workloads, IDs and models."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_COMPILEGATE_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete this command with the Tab key.

    \b
      eval "$(compilegate completion bash)"     in ~/.bashrc
      eval "$(compilegate completion zsh)"      in ~/.zshrc, after compinit
      compilegate completion fish | source      in ~/.config/fish/config.fish

    It completes commands and options, the workloads in workloads/, the IDs of executions, and
    registered models.
    """
    found = get_completion_class(shell)
    assert found is not None, shell  # noqa: S101  one of click's own
    root = context.find_root()
    click.echo(found(root.command, {}, "compilegate", _VARIABLE).source())
