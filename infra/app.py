"""The CDK app: reads what is declared, and makes the stacks. Run by the CDK CLI (`cdk.json`)."""

from __future__ import annotations

import os
import sys
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from compilegate.account.settings import SettingsError
from compilegate.account.settings.reading import network_of
from compilegate.errors import CompilegateError
from compilegate.infra.ci import CiStack
from compilegate.infra.endpoint import EndpointStack
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.images import ImagesStack
from compilegate.infra.network import NetworkStack
from compilegate.infra.project import DeclaredWorkload, Project, endpoint_of, read_project
from compilegate.infra.workload import WorkloadStack
from compilegate.pipelines.images import lacking_images

BOOTSTRAP = "@aws-cdk/core:bootstrapQualifier"
"""Qualifier of the bootstrap whose roles and bucket the CDK uses."""
BAD_INPUT = 2
"""The exit code that the command line uses for it, too."""


class NoImageInRegionError(CompilegateError):
    """The region lacks images that workloads need; a line for each."""


def build(app: cdk.App, project: Project, environment: cdk.Environment) -> None:
    """Make every stack of the project in the app: the foundation first, the workloads last.

    Raises NoImageInRegionError when images that they need cannot be had in the region.
    """
    names, region = project.names, environment.region
    bases = {name: image.base for name, image in project.images.items()}
    workloads = [declared.workload for declared in project.workloads]
    if region is not None and (lacking := lacking_images(workloads, bases, region)):
        raise NoImageInRegionError(*lacking)
    foundation = FoundationStack(app, names.foundation_stack, project=project, env=environment)
    shared: dict[str, Any] = {"project": project, "foundation": foundation, "env": environment}
    images = ImagesStack(app, names.images_stack, **shared)
    stacks: list[cdk.Stack] = [images]
    network = None
    if project.settings.network.create:
        network = NetworkStack(app, names.network_stack, **shared)
        stacks.append(network)
    for declared in project.workloads:
        stacks += _of_workload(app, declared, images, network, shared)
    if (github := project.settings.github) is not None:
        pulled = images.base_repository_arns
        stacks.append(
            CiStack(app, names.ci_stack, github=github, base_repository_arns=pulled, **shared)
        )
    for stack in stacks:
        stack.add_stack_dependency(foundation)
    for stack in (foundation, *stacks):
        for key, value in names.tags.items():
            cdk.Tags.of(stack).add(key, value)
        if names.path != "/":
            _put_roles_under(stack, names.path)


def _of_workload(
    app: cdk.App,
    declared: DeclaredWorkload,
    images: ImagesStack,
    network: NetworkStack | None,
    shared: dict[str, Any],
) -> list[cdk.Stack]:
    """The stack of one workload, and that of its endpoint where it has one."""
    project: Project = shared["project"]
    name, made = declared.workload.name, None if network is None else network.made
    workload = WorkloadStack(
        app,
        project.names.workload_stack(name),
        declared=declared,
        images=images,
        network=made,
        **shared,
    )
    workload.add_stack_dependency(images)
    if network is not None:
        workload.add_stack_dependency(network)
    serving = endpoint_of(declared.workload)
    if serving is None:
        return [workload]
    endpoint = EndpointStack(
        app,
        project.names.endpoint_stack(name),
        workload=declared.workload,
        serving=serving,
        role_arn=workload.serving_role_arn,
        network=network_of(project.settings, made),
        **shared,
    )
    # The keeper has to hear that the stack is there.
    endpoint.add_stack_dependency(workload)
    return [workload, endpoint]


def _put_roles_under(stack: cdk.Stack, path: str) -> None:
    """Roles take the path of IAM that the settings name."""
    for construct in stack.node.find_all():
        if isinstance(construct, iam.CfnRole):
            construct.path = path


def main() -> None:
    try:
        project = read_project()
        app = cdk.App(context=context_of(project))
        build(app, project, environment_of(project))
    except CompilegateError as error:
        print(*error.problems, sep="\n", file=sys.stderr)
        sys.exit(BAD_INPUT)
    app.synth()


def context_of(project: Project) -> dict[str, str]:
    """The bootstrap that the app's stacks are deployed by.

    Not as a synthesizer of each stack: through jsii, one that a stack has bound is not found again.
    """
    return {BOOTSTRAP: project.names.qualifier}


def environment_of(project: Project) -> cdk.Environment:
    """The account and region that the settings name, or else those of the credentials.

    Without an account the templates work in any. A region is required, because it decides which
    registry the base images come from.
    """
    region = project.settings.region or os.environ.get("CDK_DEFAULT_REGION")
    if region is None:
        raise SettingsError(
            "infra/settings.toml: region: found none here or in the environment; name one"
        )
    return cdk.Environment(
        account=project.settings.account or os.environ.get("CDK_DEFAULT_ACCOUNT"), region=region
    )


if __name__ == "__main__":
    main()
