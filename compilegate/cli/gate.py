"""`compilegate gate`: judge evidence from any training system."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from compilegate.cli.terminal.errors import writing
from compilegate.execution import exit_codes
from compilegate.gate.experiment import read_experiment
from compilegate.gate.settings import NO_ARM
from compilegate.job.files import write_text
from compilegate.pipelines.programs.gate import Judged, judge_evidence, write_files
from compilegate.report import render_html, render_junit, render_markdown, summary_lines

_FILE = click.Path(dir_okay=False, path_type=Path)

RENDERINGS: dict[str, Callable[[Judged], str]] = {
    "junit": lambda judged: render_junit(judged.verdict),
    "markdown": lambda judged: render_markdown(judged.verdict, judged.observations),
    "html": lambda judged: render_html(judged.verdict, judged.observations),
}


@click.command("gate")
@click.argument(
    "evidence",
    metavar="EVIDENCE_DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option(
    "--config",
    required=True,
    type=_FILE,
    help="The experiment: arms, seeds, metrics and margins, as TOML or JSON.",
)
@click.option("--junit", type=_FILE, help="Write the reasons as JUnit XML to this file.")
@click.option("--markdown", type=_FILE, help="Write the report as Markdown to this file.")
@click.option("--html", type=_FILE, help="Write the report as a page to this file.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write verdict.json, both reports and the other files of the gate to this folder.",
)
def command(evidence: Path, config: Path, output: Path | None, **files: Path | None) -> None:
    """Judge evidence from any training system.

    \b
      compilegate gate evidence --config gate.json --html report.html

    EVIDENCE_DIR holds one folder ARM--SEED for each training job, with evidence/ or SageMaker's
    output.tar.gz in it. The exit status is 0 if a model may be released, a candidate's or the
    baseline's, and 4 if none may.
    """
    experiment = read_experiment(config)
    judged = judge_evidence(experiment, evidence, None)
    for name, path in files.items():
        if path is not None:
            with writing(f"--{name} {path}", path.parent):
                write_text(path, RENDERINGS[name](judged))
    if output is not None:
        with writing(f"--output {output}"):
            write_files(judged, output)
    for line in summary_lines(judged.verdict):
        click.echo(line)
    if judged.verdict.decision.arm == NO_ARM:
        raise SystemExit(exit_codes.GATE_FAILED)
