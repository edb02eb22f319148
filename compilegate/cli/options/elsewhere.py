"""`--output`, `--deployed` and `--image`: of commands whose jobs run here, or are written down for
SageMaker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def written_job_options(what: str, job: str) -> Callable[[Command], Command]:
    """Add the three to a command; `what` they are for ("With a workload"), and which `job`."""

    def added(command: Command) -> Command:
        for option in reversed(
            (
                click.option(
                    "--output",
                    "-o",
                    type=click.Path(dir_okay=False, path_type=Path),
                    help=f"{what}: write the definition of {job} to this file, for SageMaker, and "
                    "run nothing.",
                ),
                click.option(
                    "--deployed",
                    is_flag=True,
                    help="With --output: take images, roles and code as they are deployed to your "
                    "account.",
                ),
                click.option(
                    "--image",
                    "images",
                    metavar="PATTERN=WHERE",
                    multiple=True,
                    help=f"{what}: where to run images, as `compilegate run --image` says.",
                ),
            )
        ):
            command = option(command)
        return command

    return added
