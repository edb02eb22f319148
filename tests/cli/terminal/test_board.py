"""How far an execution is, as its events tell: rows, how many are done, how long is left."""

from __future__ import annotations

import pytest

from compilegate.cli.terminal.board import Board, State
from compilegate.cli.terminal.progress import clock, in_words
from compilegate.execution.events import (
    Event,
    ExecutionStarted,
    StepEnded,
    StepOutput,
    StepRetried,
    StepStarted,
)
from compilegate.execution.result import StepFailure
from compilegate.execution.status import StepStatus
from compilegate.job.names import COMPILED_LINE, COMPILING_LINE

JOBS = ("Prepare", "Train-a-1", "Train-b-1", "Train-a-2", "Train-b-2", "Gate")


def board(*events: Event, jobs: tuple[str, ...] = JOBS, at_once: int | None = 2) -> Board:
    made = Board()
    waiting = dict.fromkeys(jobs, StepStatus.WAITING)
    made.hear(ExecutionStarted("id", "news", "id", False, waiting, at_once, at=0.0))
    for event in events:
        made.hear(event)
    return made


def started(step: str, at: float) -> Event:
    return StepStarted(step, f"job-{step}", 1, at=at)


def said(step: str, line: str, at: float) -> Event:
    return StepOutput(step, line, at=at)


def ended(step: str, seconds: float, at: float) -> Event:
    return StepEnded(step, StepStatus.SUCCEEDED, None, seconds, None, at=at)


def test_nothing_is_said_of_the_time_before_a_job_has_told_something() -> None:
    assert board(started("Train-a-1", 1.0)).seconds_left(50.0) is None


def test_a_job_s_own_steps_tell_how_long_it_takes() -> None:
    events = [started("Train-a-1", 0.0), said("Train-a-1", "step=10/110 loss=1", 40.0)]
    now = board(*events, said("Train-a-1", "step=60/110", 90.0), jobs=("Train-a-1",))
    assert now.seconds_left(90.0) == 50.0  # a step a second; what compiled before does not count
    assert now.seconds_left(100.0) == 40.0


def test_jobs_that_wait_take_as_long_as_their_arm_s_before() -> None:
    events = [
        *(started("Train-a-1", 0.0), ended("Train-a-1", 100.0, 100.0)),
        *(started("Train-b-1", 0.0), ended("Train-b-1", 300.0, 300.0)),
    ]
    # Train-a-2 and Train-b-2 beside each other: the longer one decides.
    assert board(*events).seconds_left(300.0) == 300.0
    assert board(*events, at_once=1).seconds_left(300.0) == 400.0
    began = board(*events, started("Train-b-2", 300.0), started("Train-a-2", 300.0))
    assert began.seconds_left(350.0) == 250.0


def test_an_arm_that_has_not_run_is_thought_to_take_what_the_others_took() -> None:
    events = [started("Train-a-1", 0.0), ended("Train-a-1", 100.0, 100.0)]
    assert board(*events, at_once=1).seconds_left(100.0) == 300.0


def test_a_job_that_takes_longer_than_thought_has_no_negative_time_left() -> None:
    events = [
        *(started("Train-a-1", 0.0), ended("Train-a-1", 10.0, 10.0), started("Train-a-2", 10.0)),
    ]
    jobs = ("Train-a-1", "Train-a-2")
    assert board(*events, jobs=jobs).seconds_left(500.0) == 0.0


@pytest.mark.parametrize(
    ("line", "counted"),
    [
        ("step=305/1710 epoch=2", (305, 1710)),
        ("Step 3 of 9", (3, 9)),
        ("epoch 1 step [3/9] loss 0.1", (3, 9)),
        ("steps: 3/9", (3, 9)),
        ("step=10/9", (0, 0)),
        ("step=0/0", (0, 0)),
        ("accuracy 3/9", (0, 0)),
        ("a misstep 3/9", (0, 0)),
    ],
)
def test_steps_are_read_as_programs_say_them(line: str, counted: tuple[int, int]) -> None:
    row = board(started("Train-a-1", 0.0), said("Train-a-1", line, 1.0)).rows["Train-a-1"]
    assert (row.counted, row.of) == counted


def test_compiling_begins_and_ends_with_the_lines_that_a_job_prints() -> None:
    now = board(started("Train-a-1", 0.0), said("Train-a-1", COMPILING_LINE, 5.0))
    assert now.rows["Train-a-1"].compiling_since == 5.0
    now.hear(said("Train-a-1", COMPILED_LINE, 9.0))
    assert now.rows["Train-a-1"].compiling_since is None


def test_a_retried_job_begins_anew() -> None:
    failure = StepFailure("killed by signal 9")
    now = board(
        started("Train-a-1", 0.0),
        said("Train-a-1", "step=5/9", 1.0),
        StepRetried("Train-a-1", 1, failure, 10.0, at=2.0),
    )
    row = now.rows["Train-a-1"]
    assert (row.state, row.said) == (
        State.RETRYING,
        "attempt 1 failed (killed by signal 9); again in 10 s",
    )
    now.hear(StepStarted("Train-a-1", "another", 2, at=12.0))
    assert (now.rows["Train-a-1"].counted, now.rows["Train-a-1"].started) == (0, 12.0)


def test_what_is_skipped_is_none_of_the_jobs_that_there_are() -> None:
    skipped = StepEnded("Gate", StepStatus.NOT_EXECUTED, None, 0.0, None, at=1.0)
    cached = StepEnded("Prepare", StepStatus.SUCCEEDED, "earlier", 0.0, None, at=1.0)
    now = board(skipped, cached)
    assert (now.done, now.of) == (1, 5)


def test_a_target_that_names_no_jobs_has_rows_as_they_come_and_no_total() -> None:
    condition = StepEnded("Decide", StepStatus.SUCCEEDED, None, 0.0, None, at=2.0)
    now = board(started("Train-a-1", 0.0), condition, jobs=())
    assert (list(now.rows), now.done, now.of) == (["Train-a-1"], 0, None)


def test_times_are_written_as_people_read_them() -> None:
    assert [clock(value) for value in (0.9, 112.0, 3723.0)] == ["0:00", "1:52", "1:02:03"]
    assert [in_words(value) for value in (59.0, 61.0, 250.0, 7200.0)] == [
        "less than a minute",
        "about 1 minute",
        "about 4 minutes",
        "about 2.0 hours",
    ]
