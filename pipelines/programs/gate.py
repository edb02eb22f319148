"""The program of the gate's Processing step: evidence folders in, verdict and report out.

    python3 -m compilegate.pipelines.programs.gate --experiment gate.json --evidence DIR \
        --output DIR [--expect ARM:SEED:JOBNAME ...]

The exit status is 0 whenever a verdict was reached, whatever it is: deciding what to register is
the work of the pipeline's conditions. It is 2 for a bad experiment file or bad usage.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from compilegate.errors import CompilegateError
from compilegate.gate.decision import Registered
from compilegate.gate.evidence import Replicate, copy_repro, read_records, read_replicate
from compilegate.gate.judge import judge
from compilegate.gate.metrics import MetricValues
from compilegate.gate.observations import Observations, observe
from compilegate.gate.records import Records
from compilegate.gate.settings import Experiment, ExperimentError, read_experiment
from compilegate.gate.verdict import Verdict
from compilegate.job.contract import (
    EVIDENCE_FOLDER,
    MODEL_CARD_FILE,
    NO_ARM,
    NOTICE_FILE,
    OBSERVATIONS_FILE,
    POSTURE_FILE,
    REGISTRATION_FILE,
    REPORT_FILE,
    REPORT_MARKDOWN_FILE,
    STATISTICS_FILE,
    VERDICT_FILE,
)
from compilegate.job.evidence import EvidenceError, EvidenceRecord
from compilegate.job.files import write_text
from compilegate.pipelines.programs.posture import (
    alone,
    observed_alone,
    observed_together,
    posture_document,
)
from compilegate.report import About, notice_of, render_html, render_markdown, summary_lines
from compilegate.report.registry import model_card, model_quality


class GateStartError(CompilegateError):
    """The job cannot start. The message names the file or argument and what to do."""


@dataclass(frozen=True)
class Judged:
    """A verdict, and what its report draws."""

    verdict: Verdict
    observations: Observations
    records: Records
    evidence: Path
    """The folder that was judged."""
    quality: Mapping[str, Any] | None = None
    """The metrics of the model that is released; None where none is."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        experiment, jobs = _read_experiment(options)
    except (GateStartError, ExperimentError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    registered = read_registered(options.registered, options.registration)
    judged = judge_evidence(experiment, options.evidence, jobs, registered)
    if options.posture:
        observed = (
            observed_together(judged.verdict)
            if options.alone is None
            else observed_alone(experiment, judged.verdict, judged.records)
        )
        options.output.mkdir(parents=True, exist_ok=True)
        write_text(options.output / POSTURE_FILE, posture_document(observed))
    write_files(judged, options.output, About(options.execution, *_start_and_age(options.started)))
    for line in summary_lines(judged.verdict):
        print(line)
    return 0


def judge_evidence(
    experiment: Experiment,
    evidence: Path,
    jobs: Mapping[Replicate, str] | None,
    registered: Registered | None = None,
) -> Judged:
    """Read the evidence folder and judge it."""
    records = read_records(evidence, experiment.replicates)
    values = MetricValues()
    verdict = judge(experiment, records, jobs, values, registered)
    observations = observe(experiment, records, values)
    released = (verdict.decision.arm, verdict.decision.seed)
    scored = {
        replicate: each.examples
        for replicate, each in records.items()
        if isinstance(each, EvidenceRecord) and each.examples is not None
    }
    quality = None if released[0] == NO_ARM else model_quality(observations, scored, released)
    return Judged(verdict, observations, records, evidence, quality)


def read_registered(place: Path | None, registration: str | None) -> Registered | None:
    """What the program `registered` kept of the last registration; None where there was none."""
    if place is None or not (place / EVIDENCE_FOLDER).is_dir():
        return None
    saved = place / EVIDENCE_FOLDER / REGISTRATION_FILE
    as_now = saved.is_file() and saved.read_bytes() == (registration or "").encode()
    try:
        return Registered(read_replicate(place / EVIDENCE_FOLDER), as_now)
    except EvidenceError as error:
        return Registered(error, as_now)


def write_files(judged: Judged, output: Path, about: About | None = None) -> None:
    """Write the verdict, what was observed, the reports, the notice and the repros; and what a
    registry shows of the released model."""
    output.mkdir(parents=True, exist_ok=True)
    write_repros(judged, output)
    write_text(output / OBSERVATIONS_FILE, judged.observations.to_json())
    write_text(output / REPORT_FILE, render_html(judged.verdict, judged.observations, about))
    markdown = render_markdown(judged.verdict, judged.observations, about)
    write_text(output / REPORT_MARKDOWN_FILE, markdown)
    write_text(output / NOTICE_FILE, notice_of(judged.verdict).to_json())
    if judged.quality is not None:
        card = model_card(judged.verdict, judged.observations, judged.quality)
        for file, document in ((STATISTICS_FILE, judged.quality), (MODEL_CARD_FILE, card)):
            text = json.dumps(document, indent=2, sort_keys=True, allow_nan=False)
            write_text(output / file, text + "\n")
    # Last: who finds a verdict finds everything else beside it.
    write_text(output / VERDICT_FILE, judged.verdict.to_json())


def write_repros(judged: Judged, folder: Path) -> None:
    """Put the repros that the verdict names where a report in `folder` has its links to them."""
    for candidate in judged.verdict.candidates:
        parity = candidate.parity
        if parity is None or parity.repro is None:
            continue
        place = (folder / parity.repro).parent
        try:
            copy_repro(judged.evidence, (candidate.arm, parity.seed), place)
        except EvidenceError as error:
            # The verdict stands without it, and nothing that a job wrote may end the gate.
            print(f"warning: {candidate.arm}, seed {parity.seed}: {error}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m compilegate.pipelines.programs.gate",
        description="Judge the evidence of one execution and write the verdict and its report.",
    )
    parser.add_argument("--experiment", required=True, type=Path, help="gate.json")
    parser.add_argument(
        "--evidence", required=True, type=Path, help="folder with one subfolder ARM--SEED each"
    )
    parser.add_argument("--output", required=True, type=Path, help="folder of the files")
    parser.add_argument(
        "--expect",
        nargs="*",
        default=[],
        action="extend",
        metavar="ARM:SEED:JOBNAME",
        help="the training job whose evidence each replicate's must be",
    )
    parser.add_argument(
        "--registered", type=Path, help="folder of the evidence of the model registered last"
    )
    parser.add_argument(
        "--registration", metavar="DIGEST", help="of how this execution would register a model"
    )
    parser.add_argument("--execution", metavar="ID", help="which execution the page is about")
    parser.add_argument("--started", metavar="DATE", help="when that was started, as ISO 8601")
    parser.add_argument("--alone", metavar="ARM", help="the one arm that trained, with one seed")
    parser.add_argument("--posture", action="store_true", help=f"write {POSTURE_FILE}, too")
    return parser


def _read_experiment(
    options: argparse.Namespace,
) -> tuple[Experiment, dict[Replicate, str] | None]:
    """The experiment, and the job that is expected of each replicate, where jobs are named.

    Raises GateStartError and ExperimentError.
    """
    experiment = read_experiment(options.experiment)
    if options.alone is not None:
        if options.alone not in experiment.arms:
            allowed = ", ".join(experiment.arms)
            raise GateStartError(f"--alone {options.alone!r} is no arm, allowed: {allowed}")
        experiment = alone(experiment, options.alone)
    if not options.evidence.is_dir():
        raise GateStartError(f"--evidence {options.evidence} is not a folder")
    if not options.expect:
        return experiment, None
    jobs = dict(_read_expectation(expectation) for expectation in options.expect)
    for arm, seed in experiment.replicates:
        if (arm, seed) not in jobs:
            raise GateStartError(
                f"--expect names no job for {arm}:{seed}, which gate.json declares"
            )
    for arm, seed in jobs:
        if (arm, seed) not in experiment.replicates:
            raise GateStartError(f"--expect names {arm}:{seed}, which gate.json does not declare")
    return experiment, jobs


def _read_expectation(expectation: str) -> tuple[Replicate, str]:
    """`ARM:SEED:JOBNAME`. Raises GateStartError."""
    arm, _, rest = expectation.partition(":")
    seed, _, name = rest.partition(":")
    if not (seed.isdecimal() and name):
        raise GateStartError(f"--expect {expectation!r} is not ARM:SEED:JOBNAME")
    return (arm, int(seed)), name


def _start_and_age(started: str | None) -> tuple[float | None, float | None]:
    """Seconds since the epoch, and since then; unknown where the date cannot be read, since no
    verdict may fail for a date on its page."""
    try:
        moment = datetime.fromisoformat(started or "")
    except ValueError:
        return None, None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp(), max(time.time() - moment.timestamp(), 0.0)


if __name__ == "__main__":
    sys.exit(main())
