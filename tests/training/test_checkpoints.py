"""Checkpoints: what comes back is what was there, or it is not taken."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compilegate.job import Job, JobConfig
from compilegate.job.names import JOB_STARTED_VARIABLE
from training.checkpoints import (
    Checkpoint,
    CheckpointError,
    Checkpoints,
    Identity,
    RunState,
)
from training.checkpoints.file import read_checkpoint, write_checkpoint
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength
from training.update import WeightAverage, WeightUpdate

IDENTITY = Identity(job="job-1", config="c" * 64, data="d" * 64, torch="2.13.0")
LENGTH = RunLength(steps=20, warmup=2, steps_per_epoch=5)


@dataclasses.dataclass
class Run:
    """A run of a tiny model whose steps draw from every random generator."""

    model: torch.nn.Module
    state: RunState
    job: Job

    def step(self) -> None:
        with self.job.step():
            inputs = torch.randn(8, 4) * random.random() + float(np.random.rand())
            loss = torch.nn.functional.dropout(self.model(inputs), 0.5).square().mean()
            self.job.loss(loss)
            loss.backward()
            self.state.update.apply(self.job.steps_taken)
            self.state.average.update()

    @property
    def measured(self) -> Mapping[str, Any]:
        with self.job.checkpoint() as measured:
            return measured


def new_run(seed: int = 1, checkpoints: Checkpoints | None = None) -> Run:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    update = WeightUpdate(model, Hyperparameters(batch_size=8, learning_rate=0.1), LENGTH)
    state = RunState(model, update, WeightAverage(model, 0.9))
    nowhere = Path("unused")
    run = Run(model, state, Job(JobConfig("job-1", "arm", nowhere, nowhere)))
    if checkpoints is not None:
        checkpoints.resume(run.job, state)
    return run


def keeper(folder: Path, identity: Identity = IDENTITY) -> Checkpoints:
    return Checkpoints(folder, identity, seconds_between=0.0)


def weights(run: Run) -> dict[str, torch.Tensor]:
    return {**run.model.state_dict(), **dict(enumerate(run.state.average.tensors()))}


def interrupted(folder: Path, steps: int = 7, lost_steps: int = 2) -> Run:
    """A run that wrote a checkpoint after some steps, took a few more and was gone."""
    checkpoints = keeper(folder)
    run = new_run(checkpoints=checkpoints)
    for _ in range(steps):
        run.step()
    checkpoints.save_if_due(run.job, run.state)
    for _ in range(lost_steps):
        run.step()
    return run


@pytest.mark.slow
def test_a_resumed_run_ends_with_the_bits_of_one_that_was_never_interrupted(tmp_path: Path) -> None:
    whole = new_run()
    for _ in range(20):
        whole.step()
    interrupted(tmp_path)
    resumed = new_run(seed=99, checkpoints=keeper(tmp_path))
    assert resumed.measured["resumed_at"] == [7]
    while resumed.job.steps_taken < 20:
        resumed.step()
    assert resumed.job.losses() == whole.job.losses()
    assert weights(resumed).keys() == weights(whole).keys()
    for name, each in weights(whole).items():
        assert torch.equal(weights(resumed)[name], each), name


@pytest.mark.slow
def test_a_run_that_is_interrupted_again_remembers_both_times(tmp_path: Path) -> None:
    interrupted(tmp_path)
    checkpoints = keeper(tmp_path)
    run = new_run(checkpoints=checkpoints)
    run.step()
    checkpoints.save_if_due(run.job, run.state)
    again = new_run(checkpoints=keeper(tmp_path))
    assert again.measured["resumed_at"] == [7, 8]
    assert len(again.measured["lost_seconds"]) == 2
    assert [len(again.measured[name]) for name in ("losses", "seconds", "graphs")] == [8, 8, 8]


@pytest.mark.slow
def test_the_job_s_time_counts_from_its_first_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_week_ago = time.monotonic() - 7 * 24 * 3600
    monkeypatch.setenv(JOB_STARTED_VARIABLE, str(a_week_ago))
    first = interrupted(tmp_path)
    monkeypatch.delenv(JOB_STARTED_VARIABLE)
    later = new_run(checkpoints=keeper(tmp_path))
    assert later.measured["job_started"] == first.measured["job_started"]
    assert new_run().measured["job_started"] > first.measured["job_started"] + 24 * 3600


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"config": "x"}, "is another job's: its config differ"),
        ({"data": "x", "torch": "1.13"}, "is another job's: its data and torch differ"),
    ],
)
@pytest.mark.slow  # the first optimizer of a process takes seconds to import
def test_a_checkpoint_of_something_else_is_ignored_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str], sentence: str
) -> None:
    interrupted(tmp_path)
    other = keeper(tmp_path, dataclasses.replace(IDENTITY, **changes))
    assert new_run(checkpoints=other).job.steps_taken == 0
    assert f"checkpoint ignored: it {sentence}; the job starts over" in capsys.readouterr().out


@pytest.mark.slow
def test_another_job_s_checkpoint_is_not_taken_under_one_s_own_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(tmp_path)
    (tmp_path / "job-1.safetensors").rename(tmp_path / "job-2.safetensors")
    other = keeper(tmp_path, dataclasses.replace(IDENTITY, job="job-2"))
    assert new_run(checkpoints=other).job.steps_taken == 0
    assert "it is another job's: its job differ; the job starts over" in capsys.readouterr().out


@pytest.mark.slow
def test_checkpoints_of_other_jobs_are_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(tmp_path)
    before = (tmp_path / "job-1.safetensors").read_bytes()
    other = keeper(tmp_path, dataclasses.replace(IDENTITY, job="job-2"))
    run = new_run(checkpoints=other)
    run.step()
    other.save_if_due(run.job, run.state)
    other.finish()
    assert (tmp_path / "job-1.safetensors").read_bytes() == before
    assert "checkpoints of 1 other jobs are left alone" in capsys.readouterr().out


@pytest.mark.slow
def test_a_finished_job_leaves_an_empty_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(tmp_path)
    keeper(tmp_path).finish()
    assert (tmp_path / "job-1.safetensors").read_bytes() == b""
    assert new_run(checkpoints=keeper(tmp_path)).job.steps_taken == 0
    assert "it is empty, as a job leaves it that has finished" in capsys.readouterr().out


@pytest.mark.slow
def test_a_disk_that_is_full_ends_no_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = keeper(tmp_path)
    run = new_run(checkpoints=checkpoints)
    run.step()
    # A folder where the file should be: as good as any reason why it cannot be written.
    (tmp_path / "job-1.safetensors" / "x").mkdir(parents=True)
    checkpoints.save_if_due(run.job, run.state)
    assert "no checkpoint after step 0: " in capsys.readouterr().out


TENSORS = {
    "a": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "b": torch.tensor(3.0),
    "c": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "d": torch.zeros(0),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint") / "whole.safetensors"
    write_checkpoint(path, Checkpoint(TENSORS, {"step": 3, "rate": 0.1}))
    return path


def test_a_file_gives_back_what_was_written(written: Path) -> None:
    found = read_checkpoint(written)
    assert found.facts == {"format": 1, "step": 3, "rate": 0.1}
    assert found.tensors.keys() == TENSORS.keys()
    assert all(torch.equal(found.tensors[name], each) for name, each in TENSORS.items())
    assert [path.name for path in written.parent.iterdir()] == ["whole.safetensors"]


@pytest.mark.slow
@given(st.data())
def test_no_damage_goes_unnoticed(
    written: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = written.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    damage: Callable[[], bytes] = data.draw(
        st.sampled_from(
            [
                lambda: content[:place],
                lambda: content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :],
                lambda: content + b"x",
            ]
        )
    )
    path = written.parent / "damaged"
    path.write_bytes(damage())
    with pytest.raises(CheckpointError):
        read_checkpoint(path)
