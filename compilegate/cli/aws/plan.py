"""`compilegate aws plan`: what a deployment would change, and an execution reuse, cost and need."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compilegate.access import Arns
from compilegate.account.deployed import StackOutputs, read_outputs
from compilegate.account.errors import AwsError, NotDeployedError
from compilegate.account.images import unbuilt_images
from compilegate.account.plan.budget import BudgetError
from compilegate.account.plan.network import network_cost
from compilegate.account.plan.planning import Builds, Plan, make_plan
from compilegate.account.plan.target import target_deployment, target_sources
from compilegate.cli.checks import image_bases, refuse_infeasible
from compilegate.cli.definitions import compiled
from compilegate.cli.options import (
    Project,
    parameter_option,
    parameter_pairs,
    pass_project,
    workload_argument,
)
from compilegate.cli.places import Account, open_account
from compilegate.cli.terminal.errors import refusing_os_errors
from compilegate.datasets import raw_data
from compilegate.document.writing import compact
from compilegate.pipelines.requests.images import image_folders_of
from compilegate.pipelines.staging import placement_of
from compilegate.posture.names import FUNCTION_KIND
from compilegate.workload.parameters import INSTANCE_TYPE

if TYPE_CHECKING:
    from compilegate.pipelines.deployment import Deployment, Sources
    from compilegate.workload import Workload


FORMATS = ("text", "markdown", "json")


@click.command("plan")
@workload_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Markdown suits a comment on a pull request.",
)
@parameter_option
@pass_project
def command(project: Project, workload: str, *, form: str, parameters: tuple[str, ...]) -> None:
    """Show what this checkout would change in the account, before anything starts.

    \b
      compilegate aws plan news-topics                       in words
      compilegate aws plan news-topics --format markdown     as a comment on a pull request
      compilegate aws plan news-topics --format json         for a program

    Compares this checkout's definition with the deployed one, by step and field. For an execution
    it shows which steps would come from the step cache (a prediction), the usual and the maximum
    cost, and which quotas are too low. Nothing is written or started.
    """
    given = parameter_pairs(parameters)
    declared, path = project.load(workload)
    account = open_account(project)
    bases = image_bases(project.containers, account.names.settings.images.base)
    refuse_infeasible(
        declared,
        path,
        region=account.session.region,
        bases=bases,
        instance_type=given.get(INSTANCE_TYPE),
    )
    click.echo(f"looking up where {declared.name} is deployed", err=True)
    with refusing_os_errors():
        deployment, sources = _target(account, declared, path, project.containers)
    definition = compact(compiled(declared, deployment, sources))
    click.echo(
        "reading the deployed definition, its latest executions and the account's quotas", err=True
    )
    plan = make_plan(
        account.session,
        account.names.pipeline(declared.name),
        definition,
        given=given,
        max_parallel_steps=declared.compute.max_parallel_steps,
        now=datetime.now(UTC),
        workload=declared,
        bucket=deployment.bucket,
        builds=_builds(account, declared, deployment),
        network=network_cost(account.names.settings.network, account.session.region),
    )
    click.echo(_rendered(plan, form))
    if plan.over_budget:
        raise BudgetError(*plan.over_budget)


def _rendered(plan: Plan, form: str) -> str:
    if form == "json":
        return json.dumps(dataclasses.asdict(plan), indent=2, allow_nan=False)
    from compilegate.cli.aws.plan_text import plan_markdown, plan_text  # noqa: PLC0415  slow

    return plan_text(plan) if form == "text" else plan_markdown(plan)


def _builds(account: Account, workload: Workload, deployment: Deployment) -> Builds:
    """The images that the workload's jobs run in and that are not there as this checkout has them.

    Where the registry cannot be asked, all of them: what the quota says holds for any build.
    """
    used = image_folders_of(workload)
    images = {name: uri for name, uri in deployment.images.items() if name in used}
    try:
        missing = unbuilt_images(account.session, images)
    except AwsError:
        missing = list(images)
    return Builds(machine=account.names.settings.images.build_machine, images=missing)


def _posture_function(account: Account, workload: Workload) -> str:
    session, name = account.session, account.names.function(workload.name, FUNCTION_KIND)
    return Arns(
        partition=session.partition, region=session.region, account=session.account
    ).function(name)


def _network(account: Account) -> StackOutputs | None:
    """The stack of the VPC that the settings let the project make; None before its deployment."""
    if not account.names.settings.network.create:
        return None
    try:
        return read_outputs(account.session, account.names.network_stack)
    except NotDeployedError:
        return None


def _target(
    account: Account, workload: Workload, path: Path, containers: Path
) -> tuple[Deployment, Sources]:
    """Where this checkout's definition would be deployed. Raises NotDeployedError if not even
    the foundation is deployed."""
    foundation = read_outputs(account.session, account.names.foundation_stack)
    folders = account.image_folders(containers)
    try:
        stack = read_outputs(account.session, account.names.workload_stack(workload.name))
    except NotDeployedError:
        stack = None
    deployment = target_deployment(
        foundation,
        stack,
        account.names,
        {name: folder.tag for name, folder in folders.items()},
        account.session.region,
        network=_network(account),
    )
    if workload.posture is not None:
        function = _posture_function(account, workload)
        deployment = dataclasses.replace(deployment, posture_function=function)
    data = raw_data(workload.data, path.parent)
    staged = placement_of(workload, deployment, data, path.parent).sources
    if stack is None:
        # Nothing to compare with, and where its code will lie does not affect the rest.
        return deployment, staged
    return deployment, target_sources(staged, stack)
