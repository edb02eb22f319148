"""From a workload to the definition that runs here or in the account: what is refused before
anything starts, `pipeline compile` and `aws roles`, and jobs of a workload alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compilegate.cli import options
from compilegate.cli.options import FILE, FOLDER, Project, pass_project, refuse_given
from compilegate.cli.printing import RefusalError, announce, counted, found_in, print_or_write
from compilegate.datasets import Declared, cache_folder, misfits, raw_data
from compilegate.datasets.inspection import validation_rows
from compilegate.document.model import Definition
from compilegate.document.reading import read_definition
from compilegate.document.step_types import TRAINING
from compilegate.document.writing import compact, write_definition
from compilegate.errors import CompilegateError
from compilegate.execution import exit_codes
from compilegate.execution.status import StepStatus, Target
from compilegate.job.contract import OUTPUT_ARCHIVE
from compilegate.local import ImageSources, LocalExecutor, ObjectStore
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Deployment, local_deployment
from compilegate.pipelines.images import ImageFolder, image_folders, image_tags
from compilegate.pipelines.staging.placement import Placement, placement_of
from compilegate.pipelines.staging.requirements import check_metric_functions, unbuilt_requirements
from compilegate.pipelines.staging.source_trees import gate_tree, own_code
from compilegate.workload import Workload
from compilegate.workload.feasibility import Bases, check_feasible, findings

if TYPE_CHECKING:
    from compilegate.gate.forecast import Design

# What can be wrong with a workload beyond its file: refused by name, before anything starts.


def refuse_all_at_once(*checks: Callable[[], None]) -> None:
    """Make every check, and raise what all of them found."""
    found: list[str] = []
    for check in checks:
        try:
            check()
        except CompilegateError as error:
            found += error.problems
    if found:
        raise RefusalError(*dict.fromkeys(found))


def check_data(workload: Workload, path: Path) -> None:
    """Refuse data on this machine whose header or first rows do not fit the workload."""
    documents = workload.kind.document_shapes is not None
    steps = [arm.global_batch_size for arm in workload.arms.values()]
    if found := data_problems(workload.data, path, documents=documents, largest_step=max(steps)):
        raise RefusalError(*found)


def data_problems(
    data: Declared, path: Path, *, documents: bool, largest_step: int = 1
) -> list[str]:
    """What does not fit in data on this machine. `path` is the workload's file, which is named
    before a key of it; other problems name a file of the data."""
    found = misfits(data, path.parent, documents=documents, largest_step=largest_step)
    return [f"{path}: {each}" if each.startswith("data.") else each for each in found]


def refuse_infeasible(
    workload: Workload,
    path: Path,
    bases: Bases,
    *,
    region: str | None = None,
    instance_type: str | None = None,
) -> None:
    """Refuse arms that cannot run on SageMaker."""
    with found_in(path):
        check_feasible(workload, region=region, bases=bases, instance_type=instance_type)


def cannot_run_here(workload: Workload) -> dict[str, list[str]]:
    """Why arms cannot run on this machine, by arm."""
    found: dict[str, list[str]] = {}
    for each in findings(workload, target=Target.HERE):
        if each.refused:
            found.setdefault(each.arm, []).append(each.sentence)
    return found


def project_images(project: Project) -> dict[str, ImageFolder]:
    """The image folders, with the bases and their digests that the settings name."""
    images = project.settings.images
    return image_folders(project.containers, images.base, images.pinned)


def image_bases(project: Project) -> Bases:
    """What each image folder extends, by the settings or by its own Dockerfile."""
    return {name: folder.base for name, folder in project_images(project).items()}


def check_requirements(workload: Workload, path: Path, containers: Path) -> None:
    """Refuse images without what a program's requirements.txt needs, where the workload says
    that it is in them."""
    with found_in(path):
        if faults := list(unbuilt_requirements(workload, path.parent, containers)):
            raise RefusalError(*faults)


def check_functions(workload: Workload, path: Path, project: Project) -> None:
    """Refuse a workload's own metric functions that the gate could not load."""
    requirements = project.containers / "gate" / "requirements.txt"
    with found_in(path):
        check_metric_functions(
            workload,
            gate_tree(own_code(workload.gate.code, path.parent)),
            requirements if requirements.is_file() else None,
        )


def design_of(workload: Workload, path: Path) -> Design:
    """What the gate's forecasts need to know of an experiment."""
    from compilegate.gate.forecast import Design  # noqa: PLC0415  scipy takes time

    return Design(
        seeds=len(workload.seeds),
        candidates=len(workload.candidates),
        examples=validation_rows(workload.data, path.parent),
    )


# The definition.


def placed(workload: Workload, path: Path, project: Project, deployment: Deployment) -> Placement:
    """Where an execution finds its files; nothing is fetched yet."""
    check_requirements(workload, path, project.containers)
    return placement_of(workload, deployment, raw_data(workload.data, path.parent), path.parent)


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


@click.command("compile")
@options.workload
@options.output
@click.option(
    "--objects",
    type=FOLDER,
    help="With --account: write what the definition needs in S3 to FOLDER/BUCKET.",
)
@options.named_place
@click.option("--settings", type=FILE, hidden=True)  # programs that compile for others use both
@click.option("--containers", type=FOLDER, hidden=True)
@pass_project
def compile_command(
    project: Project,
    workload: str,
    *,
    output: Path | None,
    objects: Path | None,
    settings: Path | None,
    containers: Path | None,
    **place_options: str | None,
) -> None:
    """Print a workload's SageMaker pipeline definition.

    \b
      compilegate pipeline compile news-topics -o definition.json
      compilegate pipeline compile news-topics --account 123456789012 --objects upload

    The same workload gives the same bytes in every run and on every machine; AWS is not called.
    Every step's request is checked against the service's own shapes. Bucket, roles and images have
    names that a local run understands; with --account those that infra/settings.toml gives them,
    for other tools than `make deploy`; `compilegate aws roles` prints the roles that go with it.
    """
    from compilegate.gate.forecast import never_passing  # noqa: PLC0415  scipy takes time

    project = replace(
        project,
        settings_file=settings or project.settings_file,
        containers=containers or project.containers,
    )
    declared, path = project.load(workload)
    bases = image_bases(project)
    if place_options["account"] is None:
        refuse_given({"--objects", "--region", "--key"}, "needs --account")
        refuse_infeasible(declared, path, bases)
        definition, placement = compiled_here(project, declared, path)
    else:
        from compilegate.account.roles import offline_account  # noqa: PLC0415  boto3 takes time

        place = offline_account(project.settings_file, **place_options)
        refuse_infeasible(declared, path, bases, region=place.region)
        tags = {name: folder.tag for name, folder in project_images(project).items()}
        deployment = place.deployment(declared, tags)
        placement = placed(declared, path, project, deployment)
        definition = compile_definition(declared, deployment, placement.sources)
    # Why no candidate can pass, however equal, is known before anything trains.
    for reason in never_passing(declared.gate, design_of(declared, path)):
        announce(f"note: gate.{reason}")
    if objects is not None:
        objects.mkdir(parents=True, exist_ok=True)
        placement.put(ObjectStore(objects.resolve()), cache_folder(), announce)
        bucket = placement.sources.training_archive.split("/")[2]
        announce(f"upload it with: aws s3 sync {objects / bucket} s3://{bucket}")
    print_or_write(definition, output)
    if output is not None:
        deployed = len(compact(definition).encode())
        announce(f"{output}: {len(definition.encode()):,} bytes, {deployed:,} as deployed")


@click.command("roles")
@options.workload
@options.output
@options.named_place
@pass_project
def roles_command(
    project: Project, workload: str, *, output: Path | None, **place_options: str | None
) -> None:
    """Print the roles of a workload: whom each trusts, and what it may do.

    \b
      compilegate aws roles news-topics --account 123456789012 --region us-east-1 --key ARN
      compilegate aws roles news-topics -o roles.json      place and key from infra/settings.toml

    The statements are those that `make deploy` gives the same roles. AWS is not called. The
    definition that goes with them is printed by `compilegate pipeline compile --account`.
    """
    from compilegate.account.roles import offline_account, offline_roles  # noqa: PLC0415  boto3 takes time

    declared, _ = project.load(workload)
    place = offline_account(project.settings_file, **place_options)
    place.check(declared)
    roles = offline_roles(place, declared, project_images(project))
    document = {
        kind: {
            "RoleName": role.name,
            "Description": role.description,
            "AssumeRolePolicyDocument": role.trust,
            "PolicyDocument": role.policy,
        }
        for kind, role in roles.items()
    }
    if declared.new_data is not None:
        announce(
            "not among them: [new_data], since the function that starts on deliveries is made by "
            "`make deploy` alone"
        )
    print_or_write(json.dumps(document, indent=2) + "\n", output)


# Executions on this machine.


def object_store(project: Project) -> ObjectStore:
    """The objects of the home, which is made if it is not there."""
    project.home.mkdir(parents=True, exist_ok=True)
    return ObjectStore(project.home.resolve() / "s3")


def image_sources(project: Project, patterns: Mapping[str, str]) -> ImageSources:
    """Where images come from: the project's folders, and what the command line names."""
    return ImageSources(root=project.containers, patterns=tuple(patterns.items()))


def run_jobs(
    project: Project,
    declared: tuple[Workload, Path],
    kind: str,
    jobs_of: Callable[[Definition], Definition],
    *,
    output: Path | None,
    images: Mapping[str, str],
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
    from compilegate.account.executions import read_pipeline  # noqa: PLC0415
    from compilegate.account.session import read_outputs  # noqa: PLC0415  boto3 takes time
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
