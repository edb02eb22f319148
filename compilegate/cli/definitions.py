"""From a workload to the definition that runs here or in the account; and jobs of it alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compilegate.cli.checks import check_requirements
from compilegate.cli.options import Project, print_or_write
from compilegate.cli.terminal.errors import refusing_os_errors
from compilegate.datasets import cache_folder, raw_data
from compilegate.document.model import Definition
from compilegate.document.reading import read_definition
from compilegate.document.writing import write_definition
from compilegate.pipelines.deployment import Deployment, Sources, local_deployment
from compilegate.pipelines.kept import definition_of
from compilegate.pipelines.staging import Placement, image_folders, image_tags, placement_of
from compilegate.workload import Workload

if TYPE_CHECKING:
    from compilegate.account.named import NamedPlace
    from compilegate.execution.result import StepResult


def place_locally(workload: Workload, path: Path, project: Project) -> tuple[Deployment, Placement]:
    """Where a local execution of the workload finds its files; nothing is fetched yet."""
    deployment = local_deployment(image_tags(project.containers))
    missing = {workload.kind.processing_image[1], "gate"} - deployment.images.keys()
    if missing:
        raise click.UsageError(
            f"{project.containers} has no image folder "
            f"{' and no '.join(sorted(missing))} with a requirements.txt"
        )
    return deployment, _placement(workload, path, project, deployment)


def place_by_name(
    workload: Workload, path: Path, project: Project, place: NamedPlace
) -> tuple[Deployment, Placement]:
    """Where an execution in an account that is only named finds its files."""
    images = place.names.settings.images
    folders = image_folders(project.containers, images.base, images.pinned)
    deployment = place.deployment(workload, {name: each.tag for name, each in folders.items()})
    return deployment, _placement(workload, path, project, deployment)


def _placement(
    workload: Workload, path: Path, project: Project, deployment: Deployment
) -> Placement:
    check_requirements(workload, path, project.containers)
    with refusing_os_errors():
        data = raw_data(workload.data, path.parent)
        return placement_of(workload, deployment, data, path.parent)


def put_objects(placement: Placement, folder: Path) -> None:
    """Write all that a definition needs in S3 as `FOLDER/BUCKET/KEY`, to be uploaded."""
    from compilegate.local import ObjectStore  # noqa: PLC0415  not for a definition alone

    with refusing_os_errors():
        folder.mkdir(parents=True, exist_ok=True)
        store = ObjectStore(folder.resolve())
        placement.put(store, cache_folder(), lambda line: click.echo(line, err=True))
    bucket = placement.sources.training_archive.removeprefix("s3://").partition("/")[0]
    click.echo(f"upload it with: aws s3 sync {folder / bucket} s3://{bucket}", err=True)


def compiled(workload: Workload, deployment: Deployment, sources: Sources) -> str:
    """The definition in indented JSON, from the cache or compiled now."""
    return definition_of(
        workload,
        deployment,
        sources,
        folder=cache_folder() / "definitions",
        told=lambda line: click.echo(line, err=True),
    )


def definition_here(
    workload: Workload, path: Path, project: Project
) -> tuple[Definition, Placement]:
    """A workload's definition for this machine, and where its files are."""
    deployment, placement = place_locally(workload, path, project)
    return read_definition(compiled(workload, deployment, placement.sources))[0], placement


def run_jobs(
    project: Project, name: str, definition: Definition, images: tuple[str, ...]
) -> Mapping[str, StepResult]:
    """Run a definition of a few jobs here, without a word; returns its steps."""
    from compilegate.cli.run import image_sources  # noqa: PLC0415  the runner takes time
    from compilegate.local import LocalExecutor  # noqa: PLC0415

    executor = LocalExecutor(
        home=project.home,
        images=image_sources(project, images),
        definition=write_definition(definition),
    )
    return executor.follow(executor.start(name, {})).steps


def output_of(project: Project, step: StepResult) -> Path:
    """The archive of what a job here left as its output."""
    from compilegate.job.names import OUTPUT_ARCHIVE  # noqa: PLC0415
    from compilegate.local import ObjectStore  # noqa: PLC0415

    place = step.properties["OutputDataConfig"]["S3OutputPath"]
    store = ObjectStore(project.home.resolve() / "s3")
    return store.path(f"{place}/{step.properties['TrainingJobName']}/output/{OUTPUT_ARCHIVE}")


def write_deployed_jobs(
    project: Project,
    workload: Workload,
    kind: str,
    jobs_of: Callable[[Definition], Definition],
    output: Path | None,
) -> None:
    """Write some jobs of a deployed workload as a pipeline of their own, NAME-KIND, and say how it
    is started and followed."""
    from compilegate.account.deployed import read_outputs, read_pipeline  # noqa: PLC0415  boto3
    from compilegate.cli.places import open_account  # noqa: PLC0415

    if output is None:
        raise click.UsageError("--aws: found no --output, allowed: with one")
    name = workload.name
    account = open_account(project)
    stack = read_outputs(account.session, account.names.workload_stack(name))
    pipeline = read_pipeline(account.session, stack["PipelineName"])
    definition = jobs_of(read_definition(pipeline.definition)[0])
    print_or_write(write_definition(definition), output)
    call = f"aws sagemaker {{}} --region {account.session.region} --pipeline-name {name}-{kind}"
    count = len(definition.steps)
    click.echo(f"{output}: {count} job{'' if count == 1 else 's'}; start and follow with:")
    click.echo(
        f"  {call.format('create-pipeline')} --role-arn {stack['PipelineRoleArn']} "
        f"--pipeline-definition file://{output}"
    )
    click.echo(f"  {call.format('start-pipeline-execution')}")
    click.echo("  compilegate aws watch ARN     with the ARN that it prints")
