"""The gate's program where jobs only print their metrics: these in, verdict and report out.

    python3 -m compilegate.pipelines.programs.printed_gate --experiment gate.json --output DIR \
        --printed=ARM:SEED:JOBNAME:METRIC=VALUE,METRIC=VALUE ...

A job's metrics may come in several arguments, since SageMaker limits the length of one.
The exit status is 0 whenever a verdict was reached, and 2 for bad usage, in one sentence.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from compilegate.evidence import Replicate
from compilegate.gate.experiment import ExperimentError, read_experiment
from compilegate.gate.printed import Printed, judge_printed
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m compilegate.pipelines.programs.printed_gate")
    parser.add_argument("--experiment", required=True, type=Path)
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--printed", action="append", default=[], metavar="ARM:SEED:JOB:METRICS")
    options = parser.parse_args(arguments)
    try:
        experiment = read_experiment(options.experiment)
        printed = _read_all(options.printed)
    except (ExperimentError, GateJobError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    verdict = judge_printed(experiment, printed)
    options.output.mkdir(parents=True, exist_ok=True)
    write_text(options.output / REPORT_HTML, render_html(verdict))
    write_text(options.output / REPORT_MARKDOWN, render_brief(verdict))
    write_text(options.output / NOTICE, notice_of(verdict).to_json())
    # Last: who finds a verdict finds everything else beside it.
    write_text(options.output / VERDICT, verdict.to_json())
    for line in summary_lines(verdict):
        print(line)
    return EXIT_JUDGED


def _read_all(texts: Sequence[str]) -> dict[Replicate, Printed]:
    found: dict[Replicate, Printed] = {}
    for text in texts:
        replicate, told = _read(text)
        before = found.get(replicate, told)
        if before.job != told.job:
            raise GateJobError(
                f"--printed {text!r} is of another job than before, allowed: {before.job}"
            )
        found[replicate] = Printed(told.job, {**before.metrics, **told.metrics})
    return found


def _read(text: str) -> tuple[Replicate, Printed]:
    """`ARM:SEED:JOBNAME:METRIC=VALUE,...`, of which no name holds a colon."""
    head, _, values = text.rpartition(":")
    replicate, job = read_expectation(head)
    pairs = [pair.partition("=") for pair in values.split(",")]
    try:
        return replicate, Printed(job, {name: float(value) for name, _, value in pairs})
    except ValueError as error:
        raise GateJobError(f"--printed {text!r} has a value that is no number") from error


if __name__ == "__main__":
    sys.exit(main())
