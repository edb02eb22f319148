"""A job whose process is replaced by another: what it measured goes on, through a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.job import InputError, Job, JobConfig
from compilegate.job.script.steps import TrainingLoop


def new_job(**config: Any) -> Job:
    nowhere = Path("unused")
    return Job(JobConfig("job", "arm", nowhere, nowhere, **config))


def taken(job: Job, losses: list[float]) -> Job:
    """The job, after a step for each loss."""
    for loss in losses:
        with job.step():
            job.loss(loss)
    return job


def checkpoint_state(job: Job) -> Mapping[str, Any]:
    """The state of a checkpoint, written and read as a script's file would."""
    with job.checkpoint() as state:
        written = json.dumps(state)
    found: Mapping[str, Any] = json.loads(written)
    return found


@pytest.mark.slow
@given(st.lists(st.lists(st.floats(0, 10), max_size=4), min_size=1, max_size=4))
def test_a_job_has_the_steps_of_all_its_processes(processes: list[list[float]]) -> None:
    job = taken(new_job(), processes[0])
    for own in processes[1:]:
        state = checkpoint_state(job)
        job = new_job()
        job.resume(state)
        taken(job, own)
    assert list(job.losses()) == [loss for own in processes for loss in own]
    state = checkpoint_state(job)
    assert len(state["seconds"]) == len(state["graphs"]) == job.steps_taken
    firsts = [sum(map(len, processes[:each])) for each in range(1, len(processes))]
    assert state["resumed_at"] == firsts


def test_the_time_between_checkpoint_and_return_is_lost() -> None:
    state = dict(checkpoint_state(taken(new_job(), [1.0])))
    state["written"] -= 50.0
    job = new_job()
    job.resume(state)
    (lost,) = checkpoint_state(job)["lost_seconds"]
    assert 50.0 <= lost < 1000.0
    assert checkpoint_state(job)["job_started"] == state["job_started"]


def test_a_job_goes_on_before_its_first_step_alone() -> None:
    state = checkpoint_state(taken(new_job(), [1.0]))
    job = taken(new_job(), [2.0])
    with pytest.raises(InputError, match=r"job.resume\(\) was called in or after step 1; call it"):
        job.resume(state)


@pytest.mark.parametrize("state", [{}, {"written": 0.0}, {"written": None}])
def test_what_is_no_state_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"job.resume\(\) was given no state of a job"):
        new_job().resume(state)


def test_steps_of_a_declared_shape_are_known_again_after_the_return() -> None:
    first = TrainingLoop(new_job(), log_every=50, shapes=2, started=0.0)
    for shape in ((8, 4), (8, 2), (8, 4)):
        step(first, shape)
    second = TrainingLoop(new_job(), log_every=50, shapes=2, started=0.0)
    with first.checkpoint() as state:
        second.go_on_from(json.loads(json.dumps(state)), None)
    step(second, (8, 2))
    assert second.shapes == [0, 1, 0, 1]
    assert second.by_process(second.shapes) == [[0, 1, 0], [1]]
    assert second.graphs == [0] * 4  # each process counts its own


def step(loop: TrainingLoop, shape: tuple[int, ...]) -> None:
    loop.begin()
    loop.see_shapes("model", shape)
    loop.set_loss(1.0)
    loop.end()
