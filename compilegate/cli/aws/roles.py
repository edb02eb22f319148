"""`compilegate aws roles` and `promote`: who may do what, and models between accounts."""

from __future__ import annotations

import json
from pathlib import Path

import click

from compilegate.account.named import given_place, named_roles
from compilegate.account.promotion import Promotion
from compilegate.account.registry import VERSION, Registry
from compilegate.account.settings import STAGE_VARIABLE
from compilegate.cli.options import (
    Project,
    named_place_options,
    output_option,
    pass_project,
    print_or_write,
    workload_argument,
)
from compilegate.cli.places import open_account
from compilegate.cli.terminal.errors import RefusalError
from compilegate.pipelines.images import image_folders


@click.command("roles")
@workload_argument
@output_option
@named_place_options
@pass_project
def roles_command(
    project: Project, workload: str, *, output: Path | None, **named: str | None
) -> None:
    """Print the roles of a workload: whom each trusts, and what it may do.

    \b
      compilegate aws roles news-topics --account 123456789012 --region us-east-1 --key ARN
      compilegate aws roles news-topics -o roles.json      place and key from infra/settings.toml

    The statements are those that `make deploy` gives the same roles. AWS is not called. The
    definition that goes with them is printed by `compilegate pipeline compile --account`.
    """
    declared, _ = project.load(workload)
    place = given_place(project.settings_file, **named)
    images = place.names.settings.images
    folders = image_folders(project.containers, images.base, images.pinned)
    place.check(declared)
    roles = named_roles(place, declared, folders)
    document = {
        kind: {
            "RoleName": role.name,
            "Description": role.description,
            "AssumeRolePolicyDocument": role.trust,
            "PolicyDocument": role.policy,
        }
        for kind, role in roles.items()
    }
    text = json.dumps(document, indent=2) + "\n"
    if declared.new_data is not None:
        click.echo(
            "not among them: [new_data], since the function that starts on deliveries is made by "
            "`make deploy` alone",
            err=True,
        )
    print_or_write(text, output)


@click.command("promote")
@click.argument("model", metavar="GROUP/VERSION")
@pass_project
def promote_command(project: Project, model: str) -> None:
    """Bring a model that was approved in the stage before to this one.

    \b
      COMPILEGATE_STAGE=prod compilegate aws promote news-topics/3

    The stage that the environment variable names says by `from` where its models come from. The
    archive and the verdict are copied and the model is registered here, where it waits for this
    stage's own approval. GROUP/VERSION is the model's name there, without the project's in front.
    A model that came before is not copied again.
    """
    found = VERSION.fullmatch(model)
    if found is None or found["arn"]:
        raise click.UsageError(f"MODEL is {model!r}, expected GROUP/VERSION, such as news-topics/3")
    account = open_account(project)
    names, source = account.names, account.names.settings.source
    if source is None:
        raise RefusalError(
            f"{project.settings_file}: source is missing, so nothing says where "
            "models come from; add a table [source], or choose a stage with `from` "
            f"by {STAGE_VARIABLE}"
        )
    registry = Registry(account.session, names.settings.project)
    promotion = Promotion(source, account.session, registry, account.bucket)
    group = found["group"].removeprefix(f"{source.project}-")
    copy, is_new = promotion.promote(group, int(found["version"]))
    name = f"{copy.group}/{copy.version}"
    if is_new:
        click.echo(f"{model} of account {source.account} is {name} here; approve it with:")
        click.echo(f"  compilegate models approve {name} --aws")
    else:
        click.echo(f"{model} of account {source.account} is {name} here already")
