"""An execution's page: what the gate drew, with what only the outside knows of the execution."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from compilegate.cli.terminal.errors import writing
from compilegate.cli.terminal.origin import read_origin
from compilegate.execution.result import ExecutionResult, StepResult
from compilegate.execution.status import UNSUCCESSFUL
from compilegate.job.files import write_bytes, write_text
from compilegate.job.names import (
    OBSERVATIONS_FILE,
    REPORT_FILE,
    REPORT_MARKDOWN_FILE,
    REPROS_FOLDER,
    VERDICT_FILE,
)
from compilegate.workload.parameters import DATA

if TYPE_CHECKING:
    from compilegate.gate.observations import Observations
    from compilegate.gate.verdict import Verdict
    from compilegate.report import About, Span, StepFacts

JUNIT_FILE = "junit.xml"
_TRAINS = re.compile(r"Train-(?P<arm>.+)-\d+")


def complete_page(result: ExecutionResult) -> bool:
    """Write the page of a verdict again, with the execution's date, timeline and command.

    The gate's own job knows none of these. Returns whether there was a verdict to draw: a
    definition from elsewhere may write another kind, whose page is left as it is.
    """
    from compilegate.report import render_html, render_markdown  # noqa: PLC0415

    if (judged := _judged(result)) is None:
        return False
    known = replace(about(result), expected=_expected(result, *judged))
    write_text(result.folder / REPORT_FILE, render_html(*judged, known))
    write_text(result.folder / REPORT_MARKDOWN_FILE, render_markdown(*judged, known))
    return True


def advice_beside(result: ExecutionResult) -> tuple[tuple[str, str], ...]:
    """What advice expected of each candidate, beside what was measured; nothing where the
    execution's folder has no verdict."""
    judged = _judged(result)
    return () if judged is None else _expected(result, *judged)


def _judged(result: ExecutionResult) -> tuple[Verdict, Observations] | None:
    """What the gate wrote; None where it is of another kind, or not there."""
    from compilegate.gate.observations import (  # noqa: PLC0415  scipy takes time
        Observations,
        ObservationsError,
    )
    from compilegate.gate.verdict import Verdict, VerdictError  # noqa: PLC0415

    try:
        verdict = Verdict.from_json((result.folder / VERDICT_FILE).read_bytes())
        observations = Observations.from_json((result.folder / OBSERVATIONS_FILE).read_bytes())
    except (OSError, VerdictError, ObservationsError):
        return None
    return verdict, observations


def _expected(
    result: ExecutionResult, verdict: Verdict, observations: Observations
) -> tuple[tuple[str, str], ...]:
    """What advice expected of each candidate, beside what was measured."""
    from compilegate.advice import experiences_of  # noqa: PLC0415  reads tables
    from compilegate.advice.told.foretold import Foretold, beside_outcome  # noqa: PLC0415

    try:
        expected = [Foretold.from_document(each) for each in read_origin(result.folder).expected]
    except (LookupError, TypeError, ValueError):
        return ()  # of another release
    measured = experiences_of(result.execution_id, result.started, verdict, observations, None)
    return tuple(beside_outcome(expected, measured))


def write_page(result: ExecutionResult, resume: str | None) -> None:
    """Write the report of an execution without a verdict, or with one that has no report.

    `resume` is the command that continues it, where it can be continued.
    """
    from compilegate.report import (  # noqa: PLC0415  jinja2 takes time
        ExecutionFacts,
        render_execution_html,
        render_execution_markdown,
    )

    facts = ExecutionFacts(
        pipeline=result.pipeline_name,
        status=result.status,
        failure=result.failure,
        steps=[_step(step) for step in result.steps.values()],
        about=about(result),
        resume=resume,
    )
    write_text(result.folder / REPORT_FILE, render_execution_html(facts))
    write_text(result.folder / REPORT_MARKDOWN_FILE, render_execution_markdown(facts))


def about(result: ExecutionResult) -> About:
    """What an execution's result and its origin say of it."""
    from compilegate.report import About  # noqa: PLC0415  jinja2 takes time

    origin = read_origin(result.folder)
    data = result.parameters.get(DATA)
    return About(
        execution_id=result.execution_id,
        started=result.started,
        seconds=None if result.ended is None else result.ended - result.started,
        data=None if data is None else str(data),
        commit=origin.commit,
        changed=origin.changed,
        command=origin.command,
        spans=_spans(result),
    )


def _spans(result: ExecutionResult) -> tuple[Span, ...]:
    """The steps that took time, or stood in for some, in the order of their start."""
    from compilegate.report import Span  # noqa: PLC0415

    ran = [step for step in result.steps.values() if step.started is not None]
    spans = [
        Span(
            name=step.name,
            arm=_arm(step),
            start=max((step.started or result.started) - result.started, 0.0),
            seconds=0.0 if step.cached else step.seconds,
            status=step.outcome_in_words.lower(),
            cached=step.cached,
            failed=step.failed,
        )
        for step in ran
        if step.cached or step.job_name is not None or step.status in UNSUCCESSFUL
    ]
    return tuple(sorted(spans, key=lambda span: span.start))


def _arm(step: StepResult) -> str | None:
    named = _TRAINS.fullmatch(step.name)
    return None if named is None else named["arm"]


def _step(step: StepResult) -> StepFacts:
    from compilegate.report import StepFacts  # noqa: PLC0415

    failure = step.failure
    told = None if failure is None else failure.sentence
    unread = () if failure is None or failure.unread is None else (f"({failure.unread})",)
    return StepFacts(
        name=step.name,
        type=step.type,
        status=step.outcome_in_words,
        seconds=step.seconds,
        cached=step.cached,
        metrics={
            metric["MetricName"]: float(metric["Value"])
            for metric in step.properties.get("FinalMetricDataList", [])
        },
        failure=told or (str(step.status) if step.status in UNSUCCESSFUL else None),
        last_lines=() if failure is None else (*failure.last_lines, *unread),
        log=None if failure is None or failure.log is None else str(failure.log),
    )


def has_page(folder: Path) -> bool:
    """Whether something wrote a page already."""
    return (folder / REPORT_FILE).is_file()


def copy_reports(result: ExecutionResult, output: Path) -> None:
    """Copy verdict and reports to a folder, and write the verdict's reasons there as JUnit XML."""
    from compilegate.gate.verdict import Verdict, VerdictError  # noqa: PLC0415  scipy takes time
    from compilegate.report import render_junit  # noqa: PLC0415

    with writing(f"--output {output}"):
        output.mkdir(parents=True, exist_ok=True)
        for name in (REPORT_FILE, REPORT_MARKDOWN_FILE, VERDICT_FILE):
            if (result.folder / name).is_file():
                write_bytes(output / name, (result.folder / name).read_bytes())
        if (result.folder / REPROS_FOLDER).is_dir():
            shutil.copytree(
                result.folder / REPROS_FOLDER, output / REPROS_FOLDER, dirs_exist_ok=True
            )
        try:
            verdict = Verdict.from_json((result.folder / VERDICT_FILE).read_bytes())
        except (OSError, VerdictError):
            return  # it failed before the gate, or a definition from elsewhere has its own kind
        write_text(output / JUNIT_FILE, render_junit(verdict))
