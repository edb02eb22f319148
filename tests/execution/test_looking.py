"""What two looks at an execution differ in, as events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
from compilegate.execution.result import ExecutionResult, StepResult
from compilegate.execution.status import ExecutionStatus, StepStatus

START = 1_800_000_000.0


def step(name: str, began: int, end: int, now: int) -> StepResult | None:
    """A step that runs from `began` to `end`, as it is at the second `now`."""
    if now < began:
        return None
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


def look(times: dict[str, tuple[int, int]], now: int) -> ExecutionResult:
    steps = [step(name, began, end, now) for name, (began, end) in times.items()]
    over = all(now >= end for _, end in times.values())
    return execution(*(found for found in steps if found is not None), over=over, now=now)


TIMES = st.dictionaries(
    st.sampled_from("ABCD"),
    st.tuples(st.integers(0, 10), st.integers(0, 10)).map(lambda pair: (pair[0], sum(pair))),
    min_size=1,
)


@settings(max_examples=40)
@given(TIMES, st.sets(st.integers(0, 19)))
def test_however_often_one_looks_each_thing_is_told_of_once(
    times: dict[str, tuple[int, int]], looks: set[int]
) -> None:
    told: list[Event] = []
    before = None
    for now in [*sorted(looks), 20]:
        after = look(times, now)
        told += events_between(before, after, START + now)
        before = after
    assert isinstance(told[0], ExecutionStarted)
    assert isinstance(told[-1], ExecutionEnded)
    assert sorted(event.step for event in told if isinstance(event, StepStarted)) == sorted(times)
    assert sorted(event.step for event in told if isinstance(event, StepEnded)) == sorted(times)


@settings(max_examples=40)
@given(TIMES)
def test_one_late_look_tells_everything_in_the_order_it_happened(
    times: dict[str, tuple[int, int]],
) -> None:
    events = events_between(None, look(times, 20), START + 20)
    assert [event.at for event in events] == sorted(event.at for event in events)


def test_a_step_from_the_cache_starts_no_job() -> None:
    done = step("A", 0, 1, 1)
    assert done is not None
    cached = replace(done, cached_from="earlier")
    (_, ended) = events_between(None, execution(cached), START + 1)
    assert isinstance(ended, StepEnded)
    assert ended.cached_from == "earlier"


def test_another_attempt_is_another_job() -> None:
    first = step("A", 0, 5, 1)
    assert first is not None
    second = replace(first, attempts=2, job_name="A-2")
    (started,) = events_between(execution(first), execution(second), START + 3)
    assert isinstance(started, StepStarted)
    assert (started.attempt, started.job_name) == (2, "A-2")
