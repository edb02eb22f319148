"""`compilegate doctor`: what this machine, or a workload's images, have and lack."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from compilegate.cli.options.account import open_account, settings_option
from compilegate.cli.options.elsewhere import written_job_options
from compilegate.cli.options.home import home_option
from compilegate.cli.options.parameters import name_value_pairs
from compilegate.cli.options.project import (
    Project,
    load_workload,
    project_options,
    require_containers,
)
from compilegate.cli.terminal.errors import refusing_os_errors, writing
from compilegate.execution.target import Target
from compilegate.job.files import write_text


@click.command("doctor")
@click.argument("workload", metavar="[NAME|FILE]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option(
    "--try",
    "trying",
    is_flag=True,
    help="Have each compiler that lacks nothing compile a small model, in a minute or so.",
)
@click.option(
    "--account",
    "of_account",
    is_flag=True,
    help="Say what the account has and lacks for what is deployed from here.",
)
@written_job_options("With a workload", "its doctor's jobs")
@home_option
@settings_option
@project_options
def command(  # noqa: PLR0917  one argument for each option
    workload: str | None,
    as_json: bool,
    trying: bool,
    of_account: bool,
    output: Path | None,
    deployed: bool,
    images: tuple[str, ...],
    home: Path,
    settings: Path,
    workloads: Path,
    containers: Path,
) -> None:
    """Say what this machine has and lacks for each compiler, and what to do about it.

    \b
      compilegate doctor                     this machine and this Python, in some seconds
      compilegate doctor --try               and let each compiler compile a small model
      compilegate doctor --json              for programs
      compilegate doctor --account           images, the quota of their builds, default data
      compilegate doctor gpu-proof           the images of a workload, each as a job here
      compilegate doctor gpu-proof --deployed -o doctor.json    its jobs for SageMaker

    Nothing is installed or changed. A job examines the image and the instance that an arm trains
    in, and always tries the compilers. The exit status is 0 whatever was found.
    """
    given_without = {"--output": output, "--deployed": deployed, "--image": images}
    if of_account:
        if workload is not None or trying or any(given_without.values()):
            raise click.UsageError("--account: found more than --json beside it, allowed: that")
        _examine_account(settings, Project(workloads=workloads, containers=containers), as_json)
        return
    if workload is not None:
        if trying:
            raise click.UsageError("--try: a workload is given as well; its jobs try anyway")
        project = Project(workloads=workloads, containers=containers)
        if deployed:
            if output is None:
                raise click.UsageError("--deployed: found no --output, allowed: with one")
            _write_deployed(workload, workloads, settings, output)
            return
        _examine_images(workload, project, home, images, output, as_json=as_json)
        return
    for option, given in given_without.items():
        if given:
            raise click.UsageError(f"{option}: no workload is given, whose images it is for")
    from compilegate.job.doctor.needs import text_of  # noqa: PLC0415
    from compilegate.job.doctor.program import examine  # noqa: PLC0415  numpy takes time

    found = examine(trying=trying)
    click.echo(json.dumps(found.document, indent=2) if as_json else text_of(found), nl=as_json)


def _examine_account(settings: Path, project: Project, as_json: bool) -> None:
    """What the account has and lacks, a line each."""
    from compilegate.cli.options.project import deployed_workloads  # noqa: PLC0415
    from compilegate.cli.sagemaker.account_doctor import examine_account  # noqa: PLC0415
    from compilegate.cli.terminal.tables import aligned  # noqa: PLC0415

    require_containers(project.containers)
    account = open_account(settings)
    declared = deployed_workloads(account.names.settings, project.workloads)
    found = list(examine_account(account, declared, project.containers))
    if as_json:
        click.echo(json.dumps([finding.document for finding in found], indent=2))
        return
    for line in aligned([(each.what, each.answer, each.sentence) for each in found]):
        click.echo(line)


def _write_deployed(workload: str, workloads: Path, settings: Path, output: Path) -> None:
    """The doctor's jobs of a deployed workload, and how they are started."""
    from compilegate.account.deployed import read_outputs, read_pipeline  # noqa: PLC0415
    from compilegate.doctor import doctor_definition  # noqa: PLC0415
    from compilegate.document.reading import read_definition  # noqa: PLC0415
    from compilegate.document.writing import write_definition  # noqa: PLC0415

    name = load_workload(workload, workloads)[0].name
    account = open_account(settings)
    stack = read_outputs(account.session, account.names.workload_stack(name))
    pipeline = read_pipeline(account.session, stack["PipelineName"])
    definition = doctor_definition(read_definition(pipeline.definition)[0])
    with writing(f"--output: {output}", output.parent):
        write_text(output, write_definition(definition))
    call = f"aws sagemaker {{}} --region {account.session.region} --pipeline-name {name}-doctor"
    click.echo(f"{output}: {len(definition.steps)} jobs; start them, then follow them, with:")
    click.echo(
        f"  {call.format('create-pipeline')} --role-arn {stack['PipelineRoleArn']} "
        f"--pipeline-definition file://{output}"
    )
    click.echo(f"  {call.format('start-pipeline-execution')}")
    click.echo("  compilegate watch ARN     with the ARN that it prints")


def _examine_images(
    workload: str,
    project: Project,
    home: Path,
    images: tuple[str, ...],
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """The doctor's jobs of a workload: run here, or written down."""
    from compilegate.cli.workload.definition import compiled, place_locally  # noqa: PLC0415
    from compilegate.doctor import doctor_definition  # noqa: PLC0415
    from compilegate.document.reading import read_definition  # noqa: PLC0415
    from compilegate.document.writing import write_definition  # noqa: PLC0415
    from compilegate.local import ObjectStore  # noqa: PLC0415
    from compilegate.workload.feasibility import NO_DAY, findings  # noqa: PLC0415

    declared, path = load_workload(workload, project.workloads)
    deployment, placement = place_locally(declared, path, project)
    whole, _ = read_definition(compiled(declared, deployment, placement.sources))
    if output is not None:
        with writing(f"--output: {output}", output.parent):
            write_text(output, write_definition(doctor_definition(whole)))
        return
    elsewhere = {
        each.arm: each.sentence
        for each in findings(declared, today=NO_DAY, target=Target.HERE)
        if each.arm is not None
    }
    for sentence in elsewhere.values():
        click.echo(f"not examined here: {sentence}", err=True)
    here = frozenset(declared.arms) - elsewhere.keys()
    with refusing_os_errors():
        home.mkdir(parents=True, exist_ok=True)
        placement.put_training_code(ObjectStore(home.resolve() / "s3"))
    definition = write_definition(doctor_definition(whole, here))
    _run(f"{declared.name}-doctor", definition, project, home, images, as_json=as_json)


def _run(
    name: str,
    definition: str,
    project: Project,
    home: Path,
    images: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    from compilegate.cli.terminal.errors import RefusalError  # noqa: PLC0415
    from compilegate.doctor import read_answer  # noqa: PLC0415
    from compilegate.execution.status import StepStatus  # noqa: PLC0415
    from compilegate.job.names import OUTPUT_ARCHIVE  # noqa: PLC0415
    from compilegate.local import ImageSources, LocalExecutor, ObjectStore  # noqa: PLC0415

    executor = LocalExecutor(
        home=home,
        images=ImageSources(
            root=project.containers if project.containers.is_dir() else None,
            patterns=tuple(name_value_pairs("--image", images).items()),
        ),
        definition=definition,
    )
    result = executor.follow(executor.start(name, {}))
    store = ObjectStore(home.resolve() / "s3")
    answers: Mapping[str, object] = {}
    for step in result.steps.values():
        if step.status is not StepStatus.SUCCEEDED:
            said = "" if step.failure is None else f": {step.failure.headline}"
            raise RefusalError(f"{step.name} did not succeed{said}; its log is {step.log}")
        place = step.properties["OutputDataConfig"]["S3OutputPath"]
        job = step.properties["TrainingJobName"]
        answer = read_answer(store.path(f"{place}/{job}/output/{OUTPUT_ARCHIVE}"))
        answers = {**answers, step.name: answer.document}
        if not as_json:
            click.echo(f"{step.name}\n{answer.text}")
    if as_json:
        click.echo(json.dumps(answers, indent=2))
