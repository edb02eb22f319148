"""Checkpoints: what comes back is what was there, or it is not taken."""

from __future__ import annotations

import dataclasses
import random
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compilegate.job import Job, JobConfig
from compilegate.job.contract import JOB_STARTED_VARIABLE
from training.checkpoints import (
    CheckpointError,
    Checkpoints,
    Identity,
    RunState,
    read_checkpoint,
    write_checkpoint,
)
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength
from training.update import WeightUpdate

IDENTITY = Identity(job="job-1", config="c" * 64, data="d" * 64, torch="2.13.0")
LENGTH = RunLength(steps=20, warmup=2, steps_per_epoch=5)
RECIPE = Hyperparameters(batch_size=8, learning_rate=0.1, averaging=0.9)
NAME = "job-1.safetensors"


class Run:
    """A run of a tiny model whose steps draw from every random generator."""

    def __init__(
        self, folder: Path | None = None, seed: int = 1, identity: Identity = IDENTITY
    ) -> None:
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
        self.state = RunState(self.model, WeightUpdate(self.model, RECIPE, LENGTH))
        self.job = Job(JobConfig("job-1", "arm", Path("unused"), Path("unused")))
        if folder is not None:
            self.checkpoints = Checkpoints(folder, identity, seconds_between=0.0)
            self.checkpoints.resume(self.job, self.state)
        with self.job.checkpoint() as self.measured:
            pass

    def steps(self, count: int) -> None:
        for _ in range(count):
            with self.job.step():
                inputs = torch.randn(8, 4) * random.random() + float(np.random.rand())
                loss = torch.nn.functional.dropout(self.model(inputs), 0.5).square().mean()
                self.job.loss(loss)
                loss.backward()
                self.state.update.apply(self.job.steps_taken)

    def save(self) -> None:
        self.checkpoints.save_if_due(self.job, self.state)

    @property
    def weights(self) -> list[torch.Tensor]:
        return [*self.model.state_dict().values(), *self.state.update.average.tensors]


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """The folder of a run that wrote a checkpoint after 7 steps, and was lost 2 steps later."""
    run = Run(tmp_path)
    run.steps(7)
    run.save()
    run.steps(2)
    return tmp_path


@pytest.mark.slow
def test_a_resumed_run_ends_with_the_bits_of_one_that_was_never_interrupted(
    interrupted: Path,
) -> None:
    whole = Run()
    whole.steps(20)
    resumed = Run(interrupted, seed=99)
    assert resumed.measured["resumed_at"] == [7]
    resumed.steps(1)
    resumed.save()
    again = Run(interrupted, seed=98)
    assert again.measured["resumed_at"] == [7, 8]
    assert len(again.measured["lost_seconds"]) == 2
    assert [len(again.measured[name]) for name in ("losses", "seconds", "graphs")] == [8, 8, 8]
    again.steps(12)
    assert again.job.losses() == whole.job.losses()
    assert all(map(torch.equal, again.weights, whole.weights))


@pytest.mark.slow
def test_the_job_s_time_counts_from_its_first_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_week_ago = time.monotonic() - 7 * 24 * 3600
    monkeypatch.setenv(JOB_STARTED_VARIABLE, str(a_week_ago))
    first = Run(tmp_path)
    first.steps(1)
    first.save()
    monkeypatch.delenv(JOB_STARTED_VARIABLE)
    assert Run(tmp_path).measured["job_started"] == first.measured["job_started"]
    assert Run().measured["job_started"] > first.measured["job_started"] + 24 * 3600


@pytest.mark.parametrize(
    ("changes", "differing"),
    [({"config": "x"}, "config"), ({"data": "x", "torch": "1.13"}, "data and torch")],
)
@pytest.mark.slow  # the first optimizer of a process takes seconds to import
def test_a_checkpoint_of_another_job_is_ignored(
    interrupted: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str], differing: str
) -> None:
    other = dataclasses.replace(IDENTITY, **changes)
    assert Run(interrupted, identity=other).job.steps_taken == 0
    assert f"is another job's: its {differing} differ" in capsys.readouterr().out


@pytest.mark.slow
def test_a_job_touches_its_own_file_alone_and_empties_it_at_its_end(interrupted: Path) -> None:
    before = (interrupted / NAME).read_bytes()
    other = Run(interrupted, identity=dataclasses.replace(IDENTITY, job="job-2"))
    assert other.job.steps_taken == 0
    other.steps(1)
    other.save()
    other.checkpoints.finish()
    assert (interrupted / NAME).read_bytes() == before
    Run(interrupted).checkpoints.finish()
    assert {path.name: path.read_bytes() for path in interrupted.iterdir()} == {
        NAME: b"",
        "job-2.safetensors": b"",
    }
    assert Run(interrupted).job.steps_taken == 0


@pytest.mark.slow
def test_a_disk_that_is_full_ends_no_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path)
    run.steps(1)
    # A folder where the file should be: as good as any reason why it cannot be written.
    (tmp_path / NAME / "x").mkdir(parents=True)
    run.save()
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
    write_checkpoint(path, TENSORS, {"step": 3, "rate": 0.1})
    return path


def test_a_file_gives_back_what_was_written(written: Path) -> None:
    tensors, facts = read_checkpoint(written)
    assert facts == {"format": 1, "step": 3, "rate": 0.1}
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], each) for name, each in TENSORS.items())
    assert [path.name for path in written.parent.iterdir()] == ["whole.safetensors"]


@pytest.mark.slow
@given(
    place=st.integers(min_value=0),
    damage=st.sampled_from(["cut", "flipped", "longer"]),
)
def test_no_damage_goes_unnoticed(written: Path, place: int, damage: str) -> None:
    content = written.read_bytes()
    at = place % len(content)
    damaged = {
        "cut": content[:at],
        "flipped": content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :],
        "longer": content + b"x",
    }[damage]
    path = written.with_suffix(".damaged")
    path.write_bytes(damaged)
    with pytest.raises(CheckpointError):
        read_checkpoint(path)
    path.unlink()
