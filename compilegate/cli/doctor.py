"""`compilegate doctor`: what this machine or a workload's images have and lack."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from compilegate.catalog.instances import accelerators_of, instances
from compilegate.cli import options
from compilegate.cli.options import Project, completing, pass_project, refuse_given
from compilegate.cli.printing import RefusalError, announce, print_json
from compilegate.job.machine.accelerators import describing


@click.command("doctor")
@click.argument(
    "subject", metavar="[NAME|TYPE]", required=False, shell_complete=completing("workload")
)
@options.as_json
@click.option(
    "--try",
    "trying",
    is_flag=True,
    help="Compile a small model with each compiler that lacks nothing; takes about a minute.",
)
@options.job_file
@options.images
@pass_project
def command(
    project: Project,
    subject: str | None,
    *,
    as_json: bool,
    trying: bool,
    output: Path | None,
    images: Mapping[str, str],
) -> None:
    """Say what this machine has and lacks for each compiler, and what to do about it.

    \b
      compilegate doctor                     this machine and this Python, in some seconds
      compilegate doctor --try               and let each compiler compile a small model
      compilegate doctor gpu-proof           the images of a workload, each as a job here
      compilegate doctor gpu-proof --aws -o doctor.json    its jobs for SageMaker
      compilegate doctor ml.p3.2xlarge       an instance type, to rehearse its jobs here

    Nothing is installed or changed. A job examines the image and the instance that an arm trains
    in, and always tries the compilers. The exit status is 0 whatever was found.

    A job with COMPILEGATE_MACHINE=$(compilegate doctor ml.p3.2xlarge) takes itself to be on that
    instance, and this machine's processor computes in the accelerator's place: what the job would
    do, refuse and record is known before an instance is paid for. Its times are this machine's.
    """
    if trying and subject is not None:
        raise click.UsageError("--try is for this machine; the jobs of a workload always try")
    if subject is None or subject.startswith("ml."):
        refuse_given({"--output", "--image", "--aws"}, "needs the NAME of a workload")
    if subject is None:
        from compilegate.job.doctor.needs import text_of  # noqa: PLC0415
        from compilegate.job.doctor.program import examine  # noqa: PLC0415  numpy takes time

        found = examine(trying=trying)
        click.echo(json.dumps(found.document, indent=2) if as_json else text_of(found), nl=as_json)
    elif subject.startswith("ml."):
        try:
            click.echo(describing(accelerators_of(subject)))
        except LookupError as error:
            raise RefusalError(
                f"TYPE is {subject!r}, expected an instance without an accelerator or one "
                f"of {', '.join(instances())}"
            ) from error
    else:
        _examine_images(project, subject, images, output, as_json=as_json)


def _examine_images(
    project: Project, name: str, images: Mapping[str, str], output: Path | None, *, as_json: bool
) -> None:
    """The doctor's jobs of a workload: run here, or written down for here or the account."""
    from compilegate.cli.definitions import cannot_run_here, run_jobs  # noqa: PLC0415  pipelines
    from compilegate.diagnose.jobs import doctor_definition, read_answer  # noqa: PLC0415

    declared = project.load(name)
    arms = frozenset(declared[0].arms)
    if output is None:
        refused = cannot_run_here(declared[0])
        for sentences in refused.values():
            announce(f"not examined here: {'; '.join(sentences)}")
        arms -= refused.keys()
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
