"""The programs of a champion's processing steps.

    python3 -m compilegate.pipelines.programs.champion open FOLDER    a note, where no model is yet
    python3 -m compilegate.pipelines.programs.champion judge --experiment gate.json --evidence DIR \
        --champion DIR --output DIR [--expect challenger:SEED:JOBNAME ...]
    python3 -m compilegate.pipelines.programs.champion keep FROM TO    the model's archive

The exit status of `judge` is 0 whenever a verdict was reached, whatever it is.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from compilegate.evidence import (
    EvidenceError,
    EvidenceRecord,
    Origin,
    Replicate,
    examples_digest,
    folder_name,
    read_replicate,
)
from compilegate.gate.experiment import ExperimentError, SuccessionExperiment, read_succession
from compilegate.gate.succession import CHALLENGER, Champion, judge_succession
from compilegate.job.files import write_text
from compilegate.pipelines.programs.gate import (
    EXIT_JUDGED,
    EXIT_USAGE,
    NOTICE,
    REPORT_HTML,
    REPORT_MARKDOWN,
    VERDICT,
    GateJobError,
    read_expectation,
)
from compilegate.report import notice_of, render_brief, render_html, summary_lines

ARCHIVE = "model.tar.gz"
_ABOUT = """The model that was registered last lies beside this, in model/model.tar.gz, for the next
execution to be compared with. Delete that file, and the next model is registered without a
comparison.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the programs; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        for line in options.program(options):
            print(line)
    except (GateJobError, ExperimentError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    return EXIT_JUDGED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m compilegate.pipelines.programs.champion")
    programs = parser.add_subparsers(required=True)
    note = programs.add_parser("open")
    note.add_argument("folder", type=Path)
    note.set_defaults(program=_open)
    judge = programs.add_parser("judge")
    for name in ("--experiment", "--evidence", "--champion", "--output"):
        judge.add_argument(name, required=True, type=Path)
    judge.add_argument("--expect", default=[], action="append", metavar="ARM:SEED:JOBNAME")
    judge.set_defaults(program=_judge)
    keep = programs.add_parser("keep")
    keep.add_argument("source", type=Path)
    keep.add_argument("target", type=Path)
    keep.set_defaults(program=_keep)
    return parser


def _open(options: argparse.Namespace) -> list[str]:
    options.folder.mkdir(parents=True, exist_ok=True)
    write_text(options.folder / "ABOUT.txt", _ABOUT)
    return ["the place of the registered model is there"]


def _keep(options: argparse.Namespace) -> list[str]:
    archive = options.source / ARCHIVE
    if not archive.is_file():
        raise GateJobError(f"{options.source} holds no {ARCHIVE}, expected the registered model's")
    options.target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(archive, options.target / ARCHIVE)
    return [f"kept {archive.stat().st_size:,} bytes for the next execution"]


def _judge(options: argparse.Namespace) -> list[str]:
    experiment = read_succession(options.experiment)
    jobs = dict(map(read_expectation, options.expect)) if options.expect else None
    verdict = judge_succession(
        experiment,
        _records(options.evidence, experiment),
        jobs,
        _champion(options.champion),
    )
    output: Path = options.output
    output.mkdir(parents=True, exist_ok=True)
    write_text(output / REPORT_HTML, render_html(verdict))
    write_text(output / REPORT_MARKDOWN, render_brief(verdict))
    write_text(output / NOTICE, notice_of(verdict).to_json())
    # Last: who finds a verdict finds everything else beside it.
    write_text(output / VERDICT, verdict.to_json())
    return summary_lines(verdict)


def _records(
    folder: Path, experiment: SuccessionExperiment
) -> dict[Replicate, EvidenceRecord | EvidenceError]:
    found: dict[Replicate, EvidenceRecord | EvidenceError] = {}
    for seed in experiment.seeds:
        try:
            found[CHALLENGER, seed] = read_replicate(folder / folder_name(CHALLENGER, seed))
        except EvidenceError as error:
            found[CHALLENGER, seed] = error
    return found


def _champion(folder: Path) -> Champion:
    """What was scored, unless it is not what the evaluation wrote."""
    try:
        record = read_replicate(folder)
    except EvidenceError as error:
        return error
    if record.evidence.origin == Origin.ABSENT:
        return None
    if record.examples is None or record.evidence.digests.get("examples") != examples_digest(
        record.examples
    ):
        return EvidenceError("examples.npz is not the file whose digest evidence.json holds")
    return record.examples


if __name__ == "__main__":
    sys.exit(main())
