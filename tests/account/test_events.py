"""What two looks at an execution differ in, as events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.account.executions.console import Job
from compilegate.account.executions.events import (
    Event,
    ExecutionEnded,
    ExecutionStarted,
    JobStarted,
    StepEnded,
    events_between,
)
from compilegate.account.executions.executions import request_token
from compilegate.account.executions.state import ExecutionState, StepState, is_execution_arn

START = datetime(2026, 11, 20, tzinfo=UTC)
ARN = "arn:aws:sagemaker:us-east-1:123456789012:pipeline/topics/execution/abcdef123456"


def job(name: str, attempt: int = 1) -> Job:
    return Job(f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{name}-{attempt}")


def step(name: str, began: int, end: int, now: int, source: str | None = None) -> StepState | None:
    """A step that runs from `began` to `end`, as it is at the second `now`."""
    if now < began:
        return None
    return StepState(
        name=name,
        type="TrainingJob",
        status="Succeeded" if now >= end else "Executing",
        started=START + timedelta(seconds=began),
        ended=START + timedelta(seconds=end) if now >= end else None,
        attempt=1,
        job=job(name),
        cached_from=source,
        failure=None,
        model_package=None,
    )


def look(times: dict[str, tuple[int, int]], now: int) -> ExecutionState:
    steps = [step(name, began, end, now) for name, (began, end) in times.items()]
    over = all(now >= end for _, end in times.values())
    return ExecutionState(
        arn=ARN,
        status="Succeeded" if over else "Executing",
        created=START,
        changed=START + timedelta(seconds=now),
        failure=None,
        steps=tuple(found for found in steps if found is not None),
    )


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
        told += events_between(before, after)
        before = after
    assert isinstance(told[0], ExecutionStarted)
    assert isinstance(told[-1], ExecutionEnded)
    assert sorted(event.step for event in told if isinstance(event, JobStarted)) == sorted(times)
    assert sorted(event.step for event in told if isinstance(event, StepEnded)) == sorted(times)


@settings(max_examples=40)
@given(TIMES)
def test_one_late_look_tells_everything_in_the_order_it_happened(
    times: dict[str, tuple[int, int]],
) -> None:
    events = events_between(None, look(times, 20))
    assert [event.at for event in events] == sorted(event.at for event in events)


def test_a_step_from_the_cache_starts_no_job() -> None:
    cached = step("A", 0, 1, 1, source=ARN)
    assert cached is not None
    state = ExecutionState(ARN, "Executing", START, START, None, (cached,))
    (_, ended) = events_between(None, state)
    assert isinstance(ended, StepEnded)
    assert ended.cached_from == ARN


def test_another_attempt_is_another_job() -> None:
    first, second = (
        StepState("A", "TrainingJob", "Executing", START, None, n, job("A", n), None, None, None)
        for n in (1, 2)
    )
    before, after = (
        ExecutionState(ARN, "Executing", START, START, None, (state,)) for state in (first, second)
    )
    (started,) = events_between(before, after)
    assert isinstance(started, JobStarted)
    assert (started.attempt, started.job.name) == (2, "A-2")


@pytest.mark.parametrize(
    ("arn", "page"),
    [
        (
            "arn:aws:sagemaker:eu-west-1:123456789012:training-job/x",
            "https://eu-west-1.console.aws.amazon.com/sagemaker/home?region=eu-west-1#/jobs/x",
        ),
        (
            "arn:aws-cn:sagemaker:cn-north-1:123456789012:processing-job/x",
            "https://cn-north-1.console.amazonaws.cn/sagemaker/home?region=cn-north-1"
            "#/processing-jobs/x",
        ),
        ("arn:aws:sagemaker:eu-west-1:123456789012:pipeline/x", None),
    ],
)
def test_a_job_has_its_page_in_the_console_of_its_partition(arn: str, page: str | None) -> None:
    assert Job(arn).page == page


def test_a_jobs_log_is_found_by_its_name() -> None:
    log = job("x").log
    assert log is not None
    assert log.endswith(
        "#logsV2:log-groups/log-group/$252Faws$252Fsagemaker$252FTrainingJobs"
        "$3FlogStreamNameFilter$3Dx-1$252F"
    )


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_token_is_one_that_the_service_takes_and_tells_starts_apart(one: str, two: str) -> None:
    assert (request_token("p", one) == request_token("p", two)) == (one == two)
    assert 32 <= len(request_token("p", one)) <= 128
    assert request_token("p", None) != request_token("p", None)


def test_an_execution_is_told_from_a_workload_by_its_arn() -> None:
    assert is_execution_arn(ARN)
    assert not is_execution_arn("topics")
    assert not is_execution_arn(ARN.rpartition("/execution")[0])
