"""What two polls of an execution differ in, as events; and how a step's failure reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.execution.events import (
    Event,
    ExecutionEnded,
    ExecutionStarted,
    StepEnded,
    StepStarted,
    events_between,
)
from compilegate.execution.result import ExecutionResult, StepFailure, StepResult
from compilegate.execution.status import ExecutionStatus, StepStatus

START = 1_800_000_000.0


def step(name: str, began: int, end: int, now: int) -> StepResult:
    """A step that runs from `began` to `end`, as it is at the second `now`."""
    over = now >= end
    return StepResult(
        name=name,
        type="Training",
        status=StepStatus.SUCCEEDED if over else StepStatus.EXECUTING,
        started=START + began,
        seconds=end - began if over else 0.0,
        attempts=1,
        job_name=f"{name}-1",
    )


def execution(*steps: StepResult, over: bool = False, now: int = 0) -> ExecutionResult:
    return ExecutionResult(
        execution_id="abcdef123456",
        pipeline_name="topics",
        status=ExecutionStatus.SUCCEEDED if over else ExecutionStatus.EXECUTING,
        steps={each.name: each for each in steps},
        parameters={},
        failed_by=None,
        failure=None,
        folder=Path(),
        started=START,
        ended=START + now if over else None,
    )


def poll(times: dict[str, tuple[int, int]], now: int) -> ExecutionResult:
    begun = {name: each for name, each in times.items() if now >= each[0]}
    over = all(now >= end for _, end in times.values())
    return execution(*(step(name, *each, now) for name, each in begun.items()), over=over, now=now)


TIMES = st.dictionaries(
    st.sampled_from("ABCD"),
    st.tuples(st.integers(0, 10), st.integers(0, 10)).map(lambda pair: (pair[0], sum(pair))),
    min_size=1,
)


@settings(max_examples=40)
@given(TIMES, st.sets(st.integers(0, 19)))
def test_each_thing_is_reported_once_and_in_order_however_often_one_polls(
    times: dict[str, tuple[int, int]], polls: set[int]
) -> None:
    reported: list[Event] = []
    before = None
    for now in [*sorted(polls), 20]:
        after = poll(times, now)
        reported += events_between(before, after, START + now)
        before = after
    assert isinstance(reported[0], ExecutionStarted)
    assert isinstance(reported[-1], ExecutionEnded)
    for kind in (StepStarted, StepEnded):
        assert sorted(each.step for each in reported if isinstance(each, kind)) == sorted(times)
    late = [event.at for event in events_between(None, poll(times, 20), START + 20)]
    assert late == sorted(late)


def test_a_step_from_the_cache_starts_no_job_and_another_attempt_is_another_job() -> None:
    cached = replace(step("A", 0, 1, 1), cached_from="earlier")
    (_, ended) = events_between(None, execution(cached), START + 1)
    assert isinstance(ended, StepEnded)
    assert ended.cached_from == "earlier"
    first = step("A", 0, 5, 1)
    second = replace(first, attempts=2, job_name="A-2")
    (started,) = events_between(execution(first), execution(second), START + 3)
    assert isinstance(started, StepStarted)
    assert (started.attempt, started.job_name) == (2, "A-2")


@pytest.mark.parametrize(
    ("failure", "lines"),
    [
        (
            StepFailure("exit code 3", Path("jobs/log.txt"), ("one", "the cause")),
            ["exit code 3; log: jobs/log.txt", "  one", "  the cause"],
        ),
        (
            StepFailure("AlgorithmError", "https://logs", (), "not allowed to read the log"),
            ["AlgorithmError", "log: https://logs", "(not allowed to read the log)"],
        ),
        (
            StepFailure("exit code 1: first\nsecond", None, ("10 %\r20 %",)),
            ["exit code 1: first", "second", "  10 %", "20 %"],
        ),
        (StepFailure(""), []),
    ],
)
def test_a_failure_has_its_log_and_last_lines(failure: StepFailure, lines: list[str]) -> None:
    assert list(failure.lines) == lines
    assert failure.headline == (lines or [""])[0]
    assert failure.text.replace("\r", "\n") == "\n".join(lines)
