"""From a workload to the definition that runs here or in the account; and jobs of it alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from compilegate.cli.checks import check_requirements
from compilegate.cli.options import Project, counted, name_value_pairs, print_or_write
from compilegate.cli.terminal.errors import refusing_os_errors
from compilegate.datasets import cache_folder, raw_data
from compilegate.document.model import Definition
from compilegate.document.reading import read_definition
from compilegate.document.step_types import TRAINING
from compilegate.document.writing import write_definition
from compilegate.execution import exit_codes
from compilegate.execution.status import StepStatus
from compilegate.job.names import OUTPUT_ARCHIVE
from compilegate.local import ImageSources, LocalExecutor, ObjectStore
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Deployment, local_deployment
from compilegate.pipelines.images import image_tags
from compilegate.pipelines.staging.placement import Placement, placement_of
from compilegate.workload import Workload


def announce(line: str) -> None:
    """Print a line about what takes long; standard output may be a document."""
    click.echo(line, err=True)


def object_store(project: Project) -> ObjectStore:
    """The objects of the home, which is made if it is not there."""
    with refusing_os_errors():
        project.home.mkdir(parents=True, exist_ok=True)
    return ObjectStore(project.home.resolve() / "s3")


def image_sources(project: Project, patterns: tuple[str, ...]) -> ImageSources:
    """Where images come from: the project's folders, and what the command line names."""
    named = name_value_pairs("--image", patterns)
    return ImageSources(root=project.containers, patterns=tuple(named.items()))


def placed(workload: Workload, path: Path, project: Project, deployment: Deployment) -> Placement:
    """Where an execution finds its files; nothing is fetched yet."""
    check_requirements(workload, path, project.containers)
    with refusing_os_errors():
        data = raw_data(workload.data, path.parent)
        return placement_of(workload, deployment, data, path.parent)


def compiled_here(project: Project, workload: Workload, path: Path) -> tuple[str, Placement]:
    """The definition for this machine, and where its files are: nothing is fetched yet. Refuses a
    project without the images that it needs."""
    deployment = local_deployment(image_tags(project.containers))
    missing = {workload.kind.processing_image[1], "gate"} - deployment.images.keys()
    if missing:
        raise click.UsageError(
            f"{project.containers} has no image folder "
            f"{' and no '.join(sorted(missing))} with a requirements.txt"
        )
    placement = placed(workload, path, project, deployment)
    return compile_definition(workload, deployment, placement.sources), placement


def run_jobs(
    project: Project,
    declared: tuple[Workload, Path],
    kind: str,
    jobs_of: Callable[[Definition], Definition],
    *,
    output: Path | None,
    images: tuple[str, ...],
    with_data: bool = True,
) -> dict[str, Path]:
    """Run a few training jobs of a workload here; returns the archive that each left, by the name
    of its step. With `--aws` or an `output` they are only written down, as a pipeline NAME-KIND."""
    workload, path = declared
    if project.aws:
        _write_deployed_jobs(project, workload.name, kind, jobs_of, output)
        return {}
    whole, placement = compiled_here(project, workload, path)
    jobs = jobs_of(read_definition(whole)[0])
    definition = write_definition(jobs)
    if output is not None:
        print_or_write(definition, output)
        return {}
    announce(f"running {', '.join(step.name for step in jobs.steps)} of {workload.name} here")
    store = object_store(project)
    with refusing_os_errors():
        if with_data:
            placement.put(store, cache_folder(), announce)
        else:
            placement.put_training_code(store)
    executor = LocalExecutor(
        home=project.home, images=image_sources(project, images), definition=definition
    )
    steps = executor.follow(executor.start(f"{workload.name}-{kind}", {})).steps.values()
    unsuccessful = [step for step in steps if step.status is not StepStatus.SUCCEEDED]
    for step in unsuccessful:
        if step.failure is not None:
            announce(f"{step.name} did not succeed: {step.failure.text}")
    if unsuccessful:
        raise SystemExit(exit_codes.STEP_FAILED)
    return {
        step.name: store.path(
            f"{step.properties['OutputDataConfig']['S3OutputPath']}/"
            f"{step.properties['TrainingJobName']}/output/{OUTPUT_ARCHIVE}"
        )
        for step in steps
        if step.type == TRAINING
    }


def _write_deployed_jobs(
    project: Project,
    name: str,
    kind: str,
    jobs_of: Callable[[Definition], Definition],
    output: Path | None,
) -> None:
    """Write jobs of a deployed workload, and say how they are started and followed."""
    from compilegate.account.deployed import read_outputs  # noqa: PLC0415  boto3
    from compilegate.account.executions import read_pipeline  # noqa: PLC0415
    from compilegate.cli.places import open_account  # noqa: PLC0415

    if output is None:
        raise click.UsageError("--aws needs --output FILE")
    account = open_account(project)
    stack = read_outputs(account.session, account.names.workload_stack(name))
    deployed = read_pipeline(account.session, stack["PipelineName"])
    definition = jobs_of(read_definition(deployed)[0])
    print_or_write(write_definition(definition), output)
    call = f"aws sagemaker {{}} --region {account.session.region} --pipeline-name {name}-{kind}"
    click.echo(f"{output}: {counted(definition.steps, 'job')}; start and follow with:")
    click.echo(
        f"  {call.format('create-pipeline')} --role-arn {stack['PipelineRoleArn']} "
        f"--pipeline-definition file://{output}"
    )
    click.echo(f"  {call.format('start-pipeline-execution')}")
    click.echo("  compilegate aws watch ARN     with the ARN that it prints")
