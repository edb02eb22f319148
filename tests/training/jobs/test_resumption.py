"""A training job that is killed goes on from its checkpoint, to the result of one that was not."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]

OPTIONS = {"epochs": 6, "averaging": 0.9, "dropout": 0.1}


def kill(process: Any) -> None:
    """As a machine that is taken away: the job's processes end at once, all of them."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in (process.pid, *map(int, children)):
        os.kill(pid, signal.SIGKILL)
    process.communicate()


def wait_for_line(process: Any, start: str) -> None:
    for line in process.stdout:
        if line.startswith(start):
            return
    raise AssertionError(f"the job ended without a line {start!r}: {process.stderr.read()}")


def test_a_killed_job_resumes_and_ends_with_the_same_weights(
    start_job: Callable[..., Any], train_job: Callable[..., Any], tmp_path: Path
) -> None:
    places = {"COMPILEGATE_CHECKPOINTS": str(tmp_path), "COMPILEGATE_CHECKPOINT_SECONDS": "0"}
    whole = train_job(**OPTIONS)
    process, _ = start_job(places, **OPTIONS)
    wait_for_line(process, "checkpoint after step 40")
    kill(process)
    resumed = train_job({**places, "COMPILEGATE_CHECKPOINT_SECONDS": "3600"}, **OPTIONS)

    evidence, expected = resumed.evidence(), whole.evidence()
    assert "resumed: continues with step " in resumed.stdout
    record = evidence.evidence.checkpoints
    assert record is not None
    assert (record.written, record.ignored) == (0, None)
    (back,) = record.resumed
    steps = len(expected.steps.loss)
    assert 40 < back.step < steps
    assert back.steady_from == back.step + 6
    # The times are the job's, not the process's: what was lost is among them.
    assert back.lost_seconds > 0
    speed = evidence.evidence.speed
    assert speed is not None
    assert speed.train_seconds >= evidence.steps.seconds.sum() + back.lost_seconds * 0.5
    assert speed.total_seconds > speed.train_seconds

    assert (resumed.model / "model.safetensors").read_bytes() == (
        whole.model / "model.safetensors"
    ).read_bytes()
    assert np.array_equal(evidence.steps.loss, expected.steps.loss)
    assert evidence.evidence.metrics == expected.evidence.metrics
    assert evidence.evidence.digests["model"] == expected.evidence.digests["model"]
    assert expected.evidence.checkpoints is None
    # Nothing of it is left for a job that is called the same by accident.
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b""]


def test_a_damaged_checkpoint_is_passed_over_and_the_job_trains_from_the_start(
    train_job: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "job-under-test.safetensors").write_bytes(b"no checkpoint at all")
    result = train_job({"COMPILEGATE_CHECKPOINTS": str(tmp_path)}, epochs=1)
    record = result.evidence().evidence.checkpoints
    assert record is not None
    assert record.resumed == ()
    assert str(record.ignored).startswith("job-under-test.safetensors is damaged: ")
    assert "checkpoint ignored: it is damaged" in result.stdout


def test_a_bad_interval_is_refused_in_one_sentence(train_job: Callable[..., Any]) -> None:
    result = train_job({"COMPILEGATE_CHECKPOINT_SECONDS": "often"})
    assert result.status == 1
    assert (
        "COMPILEGATE_CHECKPOINT_SECONDS is 'often', expected a number of seconds" in result.stderr
    )
