"""`compilegate gate`: judge evidence from any training system."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from compilegate.cli.terminal.errors import refusing_os_errors, writing
from compilegate.execution import exit_codes
from compilegate.gate.evidence import folder_name, replicates_in
from compilegate.gate.findings import Outcome
from compilegate.gate.settings import NO_ARM, Experiment, read_experiment
from compilegate.job.files import write_text
from compilegate.pipelines.programs.gate import (
    Judged,
    judge_evidence,
    write_files,
    write_repros,
)
from compilegate.report import render_html, render_junit, render_markdown, summary_lines

_FILE = click.Path(dir_okay=False, path_type=Path)

RENDERINGS: dict[str, Callable[[Judged], str]] = {
    "junit": lambda judged: render_junit(judged.verdict),
    "markdown": lambda judged: render_markdown(judged.verdict, judged.observations),
    "html": lambda judged: render_html(judged.verdict, judged.observations),
}


LINKING = ("html", "markdown")
"""Renderings with links to the scripts beside them that show wrong arithmetic."""


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
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 4 unless every candidate passes, even if the baseline may be released.",
)
def command(
    evidence: Path, config: Path, output: Path | None, *, strict: bool, **files: Path | None
) -> None:
    """Judge evidence from any training system.

    \b
      compilegate gate evidence --config gate.json --html report.html

    EVIDENCE_DIR holds one folder ARM--SEED for each training job, with evidence/ or SageMaker's
    output.tar.gz in it. The exit status is 0 if a model may be released, a candidate's or the
    baseline's, and 4 if none may. A refused candidate does not change that while the baseline
    is valid, which is right for a schedule; in CI, ask for --strict.
    """
    experiment = read_experiment(config)
    _refuse_what_is_no_evidence(evidence, experiment)
    judged = judge_evidence(experiment, evidence, None)
    for name, path in files.items():
        if path is not None:
            with writing(f"--{name} {path}", path.parent):
                if name in LINKING:
                    write_repros(judged, path.parent)
                write_text(path, RENDERINGS[name](judged))
    if output is not None:
        with writing(f"--output {output}"):
            write_files(judged, output)
    for line in summary_lines(judged.verdict):
        click.echo(line)
    refused = any(each.outcome is not Outcome.PASS for each in judged.verdict.candidates)
    if judged.verdict.decision.arm == NO_ARM or (strict and refused):
        raise SystemExit(exit_codes.GATE_FAILED)


MOST_NAMED = 4
"""How many folders a refusal names."""


def _refuse_what_is_no_evidence(folder: Path, experiment: Experiment) -> None:
    """Refuse a folder without any job of the experiment: a wrong path must not look like a verdict.

    Where at least one job has its folder, what is missing of the others is the gate's to judge.
    """
    with refusing_os_errors():
        found = replicates_in(folder)
    if found & set(experiment.replicates):
        return
    wanted = _named([folder_name(*each) for each in experiment.replicates])
    there = _named(sorted(folder_name(*each) for each in found)) or "no folder ARM--SEED"
    raise click.UsageError(f"EVIDENCE_DIR: found {there} in {folder}, allowed: {wanted}")


def _named(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
