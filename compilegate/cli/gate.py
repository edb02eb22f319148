"""`compilegate gate`: judge evidence from any training system."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from compilegate.cli.options import EXISTING_FOLDER, FILE
from compilegate.cli.printing import writing
from compilegate.execution import exit_codes
from compilegate.gate.evidence import folder_name, replicates_in
from compilegate.gate.findings import Outcome
from compilegate.gate.settings import NO_ARM, Experiment, read_experiment
from compilegate.job.files import write_text
from compilegate.pipelines.programs.gate import Judged, judge_evidence, write_files, write_repros
from compilegate.report import render_html, render_junit, render_markdown, summary_lines

MOST_NAMED = 4
"""How many folders a refusal names."""


RENDERERS: dict[str, Callable[[Judged], str]] = {
    ".html": lambda judged: render_html(judged.verdict, judged.observations),
    ".md": lambda judged: render_markdown(judged.verdict, judged.observations),
    ".json": lambda judged: judged.verdict.to_json(),
    ".xml": lambda judged: render_junit(judged.verdict),
}
"""What is written to a file, by its suffix."""


@click.command("gate")
@click.argument("evidence", metavar="FOLDER", type=EXISTING_FOLDER)
@click.option(
    "--config",
    required=True,
    type=FILE,
    help="The experiment: arms, seeds, metrics and margins, as TOML or JSON.",
)
@click.option(
    "--output",
    "-o",
    "outputs",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Where to write: a page (.html), Markdown (.md), the verdict (.json), JUnit (.xml), or a "
    "folder for all of the gate's files. May be given several times.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 4 unless every candidate passes, even if the baseline may be released.",
)
def command(evidence: Path, config: Path, outputs: tuple[Path, ...], *, strict: bool) -> None:
    """Judge evidence from any training system.

    \b
      compilegate gate evidence --config gate.json --output report.html --output junit.xml

    FOLDER holds one folder ARM--SEED for each training job, with evidence/ or SageMaker's
    output.tar.gz in it. The exit status is 0 if a model may be released, a candidate's or the
    baseline's, and 4 if none may. A refused candidate does not change that while the baseline
    is valid, which is right for a schedule; in CI, use --strict.
    """
    for path in outputs:
        if path.suffix not in {*RENDERERS, ""} and not path.is_dir():
            allowed = "a file .html, .md, .json or .xml, or a folder"
            raise click.UsageError(f"--output is {path}, expected {allowed}")
    experiment = read_experiment(config)
    _refuse_what_is_no_evidence(evidence, experiment)
    judged = judge_evidence(experiment, evidence, None)
    for path in outputs:
        render = None if path.is_dir() else RENDERERS.get(path.suffix)
        with writing(f"--output: {path}", path.parent if render else None):
            if render is None:
                write_files(judged, path)
                continue
            if path.suffix in (".html", ".md"):
                write_repros(judged, path.parent)  # the page links to them
            write_text(path, render(judged))
    click.echo("\n".join(summary_lines(judged.verdict)))
    refused = any(each.outcome is not Outcome.PASS for each in judged.verdict.candidates)
    if judged.verdict.decision.arm == NO_ARM or (strict and refused):
        raise SystemExit(exit_codes.GATE_FAILED)


def _refuse_what_is_no_evidence(folder: Path, experiment: Experiment) -> None:
    """Refuse a folder without any job of the experiment: a wrong path must not look like a verdict.

    Where at least one job has its folder, what is missing of the others is the gate's to judge.
    """
    found = replicates_in(folder)
    if found & set(experiment.replicates):
        return
    wanted = _named([folder_name(*each) for each in experiment.replicates])
    there = _named(sorted(folder_name(*each) for each in found)) or "no folder ARM--SEED"
    raise click.UsageError(f"FOLDER {folder} holds {there}, expected {wanted}")


def _named(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
