"""The CDK app: reads what is declared, and makes the stacks. Run by the CDK CLI (`cdk.json`)."""

from __future__ import annotations

import os
import sys

import aws_cdk as cdk

from compilegate.access.jobs import WORKLOAD_TAG
from compilegate.account.settings import SettingsError
from compilegate.errors import CompilegateError
from compilegate.infra.ci import CiStack
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.images import ImagesStack
from compilegate.infra.limits.quotas import quota_warnings
from compilegate.infra.network import NetworkStack
from compilegate.infra.project import Project, read_project
from compilegate.infra.workload import WorkloadStack
from compilegate.pipelines.requests.regions import lacking_images

BOOTSTRAP = "@aws-cdk/core:bootstrapQualifier"
"""Where the CDK looks for the bootstrap whose roles and bucket it uses."""
BAD_INPUT = 2
"""The exit code that the command line uses for it, too."""


class NoImageInRegionError(CompilegateError):
    """The region lacks images that workloads need; a line for each."""


def build(app: cdk.App, project: Project, environment: cdk.Environment) -> None:
    """Make every stack of the project in the app: the foundation first, the workloads last.

    Raises NoImageInRegionError when images that they need cannot be had in the region.
    """
    _refuse_region_without_images(project, environment.region)
    names = project.names
    foundation = FoundationStack(app, names.foundation_stack, project=project, env=environment)
    images = ImagesStack(
        app,
        names.images_stack,
        project=project,
        foundation=foundation,
        env=environment,
    )
    images.add_stack_dependency(foundation)
    stacks: list[cdk.Stack] = [foundation, images]
    network = None
    if project.settings.network.create:
        network = NetworkStack(
            app, names.network_stack, project=project, foundation=foundation, env=environment
        )
        network.add_stack_dependency(foundation)
        stacks.append(network)
    for declared in project.workloads:
        workload = WorkloadStack(
            app,
            names.workload_stack(declared.workload.name),
            project=project,
            declared=declared,
            foundation=foundation,
            images=images,
            network=None if network is None else network.made,
            env=environment,
        )
        workload.add_stack_dependency(images)
        if network is not None:
            workload.add_stack_dependency(network)
        cdk.Tags.of(workload).add(WORKLOAD_TAG, declared.workload.name)
        stacks.append(workload)
    if project.settings.github is not None:
        ci = CiStack(
            app,
            names.ci_stack,
            project=project,
            github=project.settings.github,
            foundation=foundation,
            base_repository_arns=images.base_repository_arns,
            env=environment,
        )
        ci.add_stack_dependency(foundation)
        stacks.append(ci)
    for stack in stacks:
        for key, value in project.names.tags.items():
            cdk.Tags.of(stack).add(key, value)


def _refuse_region_without_images(project: Project, region: str | None) -> None:
    bases = {name: image.base for name, image in project.images.items()}
    workloads = [declared.workload for declared in project.workloads]
    if region is not None and (lacking := lacking_images(workloads, bases, region)):
        told = "which images each region has: compilegate aws images --regions"
        raise NoImageInRegionError(*lacking, told)


def main() -> None:
    try:
        project = read_project()
        for said in quota_warnings(each.workload for each in project.workloads):
            print(f"quota: {said}", file=sys.stderr, flush=True)
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
