"""How far an execution is, by its events: rows, how many are done, how long is left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from compilegate.cli.progress import LiveTable, State, clock, in_words
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
from compilegate.job.contract import COMPILED_LINE, COMPILING_LINE

JOBS = ("Prepare", "Train-a-1", "Train-b-1", "Train-a-2", "Train-b-2", "Gate")


def table(*events: Event, jobs: tuple[str, ...] = JOBS, at_once: int | None = 2) -> LiveTable:
    made = LiveTable(Console(file=io.StringIO()))
    waiting = dict.fromkeys(jobs, StepStatus.WAITING)
    for event in (ExecutionStarted("id", "news", "id", False, waiting, at_once, at=0.0), *events):
        made(event)
    made.stop()
    return made


def started(step: str, at: float) -> Event:
    return StepStarted(step, f"job-{step}", 1, at=at)


def printed(step: str, line: str, at: float) -> Event:
    return StepOutput(step, line, at=at)


def ended(step: str, seconds: float, at: float) -> Event:
    return StepEnded(step, StepStatus.SUCCEEDED, None, seconds, None, at=at)


def test_a_job_s_own_steps_tell_how_long_it_takes() -> None:
    assert table(started("Train-a-1", 1.0)).seconds_left(50.0) is None
    events = [started("Train-a-1", 0.0), printed("Train-a-1", "step=10/110 loss=1", 40.0)]
    now = table(*events, printed("Train-a-1", "step=60/110", 90.0), jobs=("Train-a-1",))
    assert now.seconds_left(90.0) == 50.0  # a step a second; what compiled before does not count
    assert now.seconds_left(100.0) == 40.0


def test_jobs_that_wait_take_as_long_as_their_arm_s_before_or_else_as_the_others() -> None:
    events = [
        *(started("Train-a-1", 0.0), ended("Train-a-1", 100.0, 100.0)),
        *(started("Train-b-1", 0.0), ended("Train-b-1", 300.0, 300.0)),
    ]
    # Train-a-2 and Train-b-2 beside each other: the longer one decides.
    assert table(*events).seconds_left(300.0) == 300.0
    assert table(*events, at_once=1).seconds_left(300.0) == 400.0
    began = table(*events, started("Train-b-2", 300.0), started("Train-a-2", 300.0))
    assert began.seconds_left(350.0) == 250.0
    assert began.seconds_left(5000.0) == 0.0
    assert table(*events[:2], at_once=1).seconds_left(100.0) == 300.0


@pytest.mark.parametrize(
    ("line", "steps"),
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
def test_steps_are_read_as_programs_print_them(line: str, steps: tuple[int, int]) -> None:
    row = table(started("Train-a-1", 0.0), printed("Train-a-1", line, 1.0)).rows["Train-a-1"]
    assert (row.step, row.steps) == steps


def test_compiling_begins_and_ends_with_the_lines_that_a_job_prints() -> None:
    events = [started("Train-a-1", 0.0), printed("Train-a-1", COMPILING_LINE, 5.0)]
    assert table(*events).rows["Train-a-1"].compiling_since == 5.0
    events.append(printed("Train-a-1", COMPILED_LINE, 9.0))
    assert table(*events).rows["Train-a-1"].compiling_since is None


def test_a_retried_job_begins_anew() -> None:
    failure = StepFailure("killed by signal 9")
    events = [
        started("Train-a-1", 0.0),
        printed("Train-a-1", "step=5/9", 1.0),
        StepRetried("Train-a-1", 1, failure, 10.0, at=2.0),
    ]
    row = table(*events).rows["Train-a-1"]
    assert row.state is State.RETRYING
    assert "killed by signal 9" in row.message
    row = table(*events, StepStarted("Train-a-1", "another", 2, at=12.0)).rows["Train-a-1"]
    assert (row.step, row.started) == (0, 12.0)


def test_jobs_are_counted_where_the_target_names_them() -> None:
    skipped = StepEnded("Gate", StepStatus.NOT_EXECUTED, None, 0.0, None, at=1.0)
    cached = StepEnded("Prepare", StepStatus.SUCCEEDED, "earlier", 0.0, None, at=1.0)
    assert table(skipped, cached).footer == "1 of 5 done"
    condition = StepEnded("Decide", StepStatus.SUCCEEDED, None, 0.0, None, at=2.0)
    unnamed = table(started("Train-a-1", 0.0), condition, jobs=())
    assert (list(unnamed.rows), unnamed.footer) == (["Train-a-1"], "0 done")


def test_times_are_written_as_people_read_them() -> None:
    assert [clock(value) for value in (0.9, 112.0, 3723.0)] == ["0:00", "1:52", "1:02:03"]
    assert [in_words(value) for value in (59.0, 61.0, 250.0, 7200.0)] == [
        "less than a minute",
        "about 1 minute",
        "about 4 minutes",
        "about 2.0 hours",
    ]
