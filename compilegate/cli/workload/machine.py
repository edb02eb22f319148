"""`compilegate machine`: an instance type as a job finds it, for rehearsals here."""

from __future__ import annotations

import click

from compilegate.catalog.instances import accelerators_of, instances
from compilegate.errors import CompilegateError
from compilegate.job.machine.accelerators import describing


class UnknownInstanceError(CompilegateError):
    """The catalog does not know what accelerator an instance type has."""


@click.command("machine")
@click.argument("instance_type")
def command(instance_type: str) -> None:
    """Print what the instances of a type have: accelerator, how many, memory, compute capability.

    Where COMPILEGATE_MACHINE holds that, a job takes itself to be there, and this machine's
    processor computes in the accelerator's place: what the job would do, refuse and write down is
    seen before an instance is paid for. Its times and its memory are this machine's.

    \b
      export COMPILEGATE_MACHINE=$(compilegate machine ml.p3.2xlarge)
      compilegate run news-topics
    """
    try:
        found = accelerators_of(instance_type)
    except LookupError as error:
        raise UnknownInstanceError(
            f"INSTANCE_TYPE is {instance_type!r}, allowed: one without an accelerator, or "
            f"{', '.join(instances())}"
        ) from error
    click.echo(describing(found))
