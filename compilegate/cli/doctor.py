"""`compilegate doctor`: what this machine, a workload's images, or the account have and lack."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from compilegate.catalog.instances import accelerators_of, instances
from compilegate.cli.options import (
    Project,
    completing,
    image_option,
    job_file_option,
    json_option,
    pass_project,
    print_json,
    print_table,
    refuse_given,
)
from compilegate.cli.terminal.errors import RefusalError
from compilegate.job.machine.accelerators import describing


@click.command("doctor")
@click.argument(
    "subject", metavar="[NAME|TYPE]", required=False, shell_complete=completing("workload")
)
@json_option
@click.option(
    "--try",
    "trying",
    is_flag=True,
    help="Compile a small model with each compiler that lacks nothing; takes about a minute.",
)
@job_file_option
@image_option
@pass_project
def command(
    project: Project,
    subject: str | None,
    *,
    as_json: bool,
    trying: bool,
    output: Path | None,
    images: tuple[str, ...],
) -> None:
    """Say what this machine has and lacks for each compiler, and what to do about it.

    \b
      compilegate doctor                     this machine and this Python, in some seconds
      compilegate doctor --try               and let each compiler compile a small model
      compilegate doctor gpu-proof           the images of a workload, each as a job here
      compilegate doctor ml.p3.2xlarge       an instance type, to rehearse its jobs here
      compilegate doctor --aws               the account: images, quota of builds, default data
      compilegate doctor gpu-proof --aws -o doctor.json    its jobs for SageMaker

    Nothing is installed or changed. A job examines the image and the instance that an arm trains
    in, and always tries the compilers. The exit status is 0 whatever was found.

    An instance type is answered with its accelerator, how many, memory and compute capability.
    Where COMPILEGATE_MACHINE holds that, a job takes itself to be there, and this machine's
    processor computes in the accelerator's place: what the job would do, refuse and record is
    seen before an instance is paid for. Its times and its memory are this machine's.

    \b
      export COMPILEGATE_MACHINE=$(compilegate doctor ml.p3.2xlarge)
    """
    if trying and (subject is not None or project.aws):
        raise click.UsageError("--try is for this machine; the jobs of a workload always try")
    if subject is None or subject.startswith("ml."):
        refuse_given({"--output", "--image"}, "needs the NAME of a workload")
    if subject is None and project.aws:
        _examine_account(project, as_json=as_json)
    elif subject is None:
        from compilegate.job.doctor.needs import text_of  # noqa: PLC0415
        from compilegate.job.doctor.program import examine  # noqa: PLC0415  numpy takes time

        found = examine(trying=trying)
        click.echo(json.dumps(found.document, indent=2) if as_json else text_of(found), nl=as_json)
    elif subject.startswith("ml."):
        click.echo(_instance(subject))
    else:
        _examine_images(project, subject, images, output, as_json=as_json)


def _instance(name: str) -> str:
    try:
        return describing(accelerators_of(name))
    except LookupError as error:
        raise RefusalError(
            f"TYPE is {name!r}, expected an instance without an accelerator or one "
            f"of {', '.join(instances())}"
        ) from error


def _examine_images(
    project: Project, name: str, images: tuple[str, ...], output: Path | None, *, as_json: bool
) -> None:
    """The doctor's jobs of a workload: run here, or written down for here or the account."""
    from compilegate.cli.checks import cannot_run_here  # noqa: PLC0415  the pipelines take time
    from compilegate.cli.definitions import run_jobs  # noqa: PLC0415
    from compilegate.diagnose.jobs import doctor_definition, read_answer  # noqa: PLC0415

    declared = project.load(name)
    arms = frozenset(declared[0].arms)
    if output is None:
        elsewhere = cannot_run_here(declared[0])
        for sentences in elsewhere.values():
            click.echo(f"not examined here: {'; '.join(sentences)}", err=True)
        arms -= elsewhere.keys()
    archives = run_jobs(
        project,
        declared,
        "doctor",
        lambda whole: doctor_definition(whole, arms),
        output=output,
        images=images,
        with_data=False,
    )
    answers = {step: read_answer(archive) for step, archive in archives.items()}
    if as_json and answers:
        print_json({step: document for step, (document, _) in answers.items()})
        return
    for step, (_, text) in answers.items():
        click.echo(f"{step}\n{text}")


def _examine_account(project: Project, *, as_json: bool) -> None:
    """What the account has and lacks, a line each."""
    from compilegate.cli.aws.images import findings  # noqa: PLC0415  boto3 takes time
    from compilegate.cli.places import open_account  # noqa: PLC0415

    account = open_account(project)
    declared = project.deployed_workloads(account.names.settings)
    found = list(findings(account, declared, project.containers))
    if as_json:
        print_json([dataclasses.asdict(finding) for finding in found])
    else:
        print_table((each.what, each.answer, each.sentence) for each in found)
