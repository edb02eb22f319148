"""`compilegate promote`: a model that was approved in one stage comes to the next."""

from __future__ import annotations

import re
from pathlib import Path

import click

from compilegate.account.deployed import read_outputs
from compilegate.account.promotion import Promotion
from compilegate.account.registry import Registry
from compilegate.account.settings import STAGE_VARIABLE
from compilegate.cli.options.account import open_account, settings_option
from compilegate.cli.terminal.errors import RefusalError

_MODEL = re.compile(r"(?P<group>[a-zA-Z0-9](?:-*[a-zA-Z0-9]){0,62})/(?P<version>[1-9][0-9]{0,8})")


@click.command("promote")
@click.argument("model", metavar="GROUP/VERSION")
@settings_option
def command(model: str, settings: Path) -> None:
    """Bring a model that was approved in the stage before to this one.

    \b
      COMPILEGATE_STAGE=prod compilegate promote news-topics/3

    The stage that the environment variable names says by `from` where its models come from. The
    archive and the verdict are copied and the model is registered here, where it waits for this
    stage's own approval. GROUP/VERSION is the model's name there, without the project's in front.
    A model that came before is not copied again.
    """
    found = _MODEL.fullmatch(model)
    if found is None:
        raise click.UsageError(f"{model!r}, allowed: GROUP/VERSION, such as news-topics/3")
    account = open_account(settings)
    names, source = account.names, account.names.settings.source
    if source is None:
        raise RefusalError(
            f"{settings}: source is missing, allowed: [source], or a stage with `from`, chosen by "
            f"{STAGE_VARIABLE}; it says where models come from"
        )
    bucket = read_outputs(account.session, names.foundation_stack)["BucketName"]
    registry = Registry(account.session, names.settings.project)
    promotion = Promotion(source, account.session, registry, bucket)
    group = found["group"].removeprefix(f"{source.project}-")
    promoted = promotion.promote(group, int(found["version"]))
    name = f"{promoted.model.group}/{promoted.model.version}"
    if promoted.is_new:
        click.echo(f"{model} of account {source.account} is {name} here; approve it with:")
        click.echo(f"  compilegate models approve {name} --deployed")
    else:
        click.echo(f"{model} of account {source.account} is {name} here already")
