"""`compilegate policies`: the roles of a workload, for those who make roles themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from compilegate.account.named.given import given_place
from compilegate.account.named.roles import named_roles
from compilegate.account.named.terraform import terraform
from compilegate.cli.options.account import settings_option
from compilegate.cli.options.completing import complete_workload
from compilegate.cli.options.named import named_place_options
from compilegate.cli.options.project import load_workload, project_options, require_containers
from compilegate.cli.terminal.errors import writing
from compilegate.job.files import write_text
from compilegate.pipelines.staging import image_folders


@click.command("policies")
@click.argument("workload", metavar="NAME|FILE", shell_complete=complete_workload)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "terraform"]),
    default="json",
    show_default=True,
    help="Terraform gets roles, group, pipeline and schedule as a .tf.json.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file instead of printing.",
)
@named_place_options
@settings_option
@project_options
def command(  # noqa: PLR0917  one argument for each option
    workload: str,
    form: str,
    output: Path | None,
    account: str | None,
    region: str | None,
    key: str | None,
    settings: Path,
    workloads: Path,
    containers: Path,
) -> None:
    """Print the roles of a workload: whom each trusts, and what it may do.

    \b
      compilegate policies news-topics --account 123456789012 --region us-east-1 --key ARN
      compilegate policies news-topics --format terraform -o news-topics.tf.json

    The statements are those that `make deploy` gives the same roles. AWS is not called. The
    definition that goes with them is printed by `compilegate compile --account`.
    """
    declared, _ = load_workload(workload, workloads)
    require_containers(containers)
    place = given_place(settings, account=account, region=region, key=key)
    images = place.names.settings.images
    folders = image_folders(containers, images.base, images.pinned)
    place.check(declared)
    roles = named_roles(place, declared, folders)
    document: dict[str, Any] = (
        terraform(place, declared, roles)
        if form == "terraform"
        else {
            kind: {
                "RoleName": role.name,
                "Description": role.description,
                "AssumeRolePolicyDocument": role.trust,
                "PolicyDocument": role.policy,
            }
            for kind, role in roles.items()
        }
    )
    text = json.dumps(document, indent=2) + "\n"
    if declared.new_data is not None:
        click.echo(
            "not among them: [new_data], since the function that starts on deliveries is made by "
            "`make deploy` alone",
            err=True,
        )
    if output is None:
        click.echo(text, nl=False)
        return
    with writing(f"--output: {output}", output.parent):
        write_text(output, text)
