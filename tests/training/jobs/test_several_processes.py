"""Jobs of more than one process: two at once by torchrun, and one after another over one folder."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from compilegate.job.cache import CacheKey, hardware_of
from tests.training.conftest import DIVERGING, TWO, StartJob, TrainJob, children

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_two_processes_train_as_one_does_with_their_batches_together(train_job: TrainJob) -> None:
    recipe = {"epochs": 2, "dropout": 0.0, "averaging": 0.9}  # they draw other masks than one
    jobs = train_job(batch_size=16, **recipe), train_job(**TWO, **recipe)
    (one, two), (alone, together) = [job.record for job in jobs], [job.evidence for job in jobs]
    np.testing.assert_allclose(two.steps.loss, one.steps.loss, rtol=2e-4)
    expected, weights = (load_file(job.model / "model.safetensors") for job in jobs)
    for name, each in expected.items():
        if not name.endswith("key.bias"):  # noise alone: its gradient is zero in exact arithmetic
            np.testing.assert_allclose(weights[name], each, rtol=1e-2, atol=1e-4, err_msg=name)
    assert together.metrics["accuracy"] == pytest.approx(alone.metrics["accuracy"], 0.02)
    sizes = ("world_size", "batch_size", "global_batch_size")
    assert [alone.recipe[name] for name in sizes] == [1, 16, 16]
    assert [together.recipe[name] for name in sizes] == [2, 8, 16]
    for name in ("data_order", "steps", "warmup_steps"):
        assert alone.recipe[name] == together.recipe[name]
    steady = two.steps.seconds[together.speed.steady_from :]
    assert together.speed.samples_per_second == pytest.approx(16 * len(steady) / steady.sum())
    assert len(re.findall(r"^step=40/40 ", jobs[1].stdout, re.MULTILINE)) == 1


def test_a_killed_job_resumes_and_ends_with_the_same_weights(
    start_job: StartJob, train_job: TrainJob, tmp_path: Path
) -> None:
    options = {"epochs": 6, "averaging": 0.9, "dropout": 0.1}
    places = {"COMPILEGATE_CHECKPOINTS": str(tmp_path)}
    whole = train_job(**options)
    process, _ = start_job({**places, "COMPILEGATE_CHECKPOINT_SECONDS": "0"}, **options)
    assert any(line.startswith("checkpoint after step 40") for line in process.stdout)
    for pid in (process.pid, *children(process.pid)):  # as a machine that is taken away
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    resumed = train_job(places, **options)

    evidence, expected, steps = resumed.evidence, whole.evidence, resumed.record.steps
    (back,) = evidence.checkpoints.resumed
    assert (evidence.checkpoints.written, evidence.checkpoints.ignored) == (0, None)
    assert 40 < back.step < len(steps.loss)
    assert back.steady_from == back.step + 6
    # The times are the job's, not the process's: what was lost is among them.
    assert back.lost_seconds > 0
    assert evidence.speed.train_seconds >= steps.seconds.sum() + back.lost_seconds * 0.5
    assert evidence.speed.total_seconds > evidence.speed.train_seconds
    assert np.array_equal(steps.loss, whole.record.steps.loss)
    assert evidence.metrics == expected.metrics
    assert evidence.digests["model"] == expected.digests["model"]
    assert expected.checkpoints is None
    # Nothing of it remains for a job that has the same name by accident.
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b""]


def test_a_damaged_checkpoint_is_ignored_and_the_job_trains_from_the_start(
    train_job: TrainJob, tmp_path: Path
) -> None:
    (tmp_path / "job-under-test.safetensors").write_bytes(b"no checkpoint at all")
    record = train_job({"COMPILEGATE_CHECKPOINTS": str(tmp_path)}, epochs=1).evidence.checkpoints
    assert record.resumed == ()
    assert str(record.ignored).startswith("job-under-test.safetensors is damaged: ")


def test_compiled_code_is_shared_unless_it_is_damaged_or_a_job_fails_with_it(
    train_job: TrainJob, tmp_path: Path
) -> None:
    options = {"compiler": "inductor", "arm": "compiler-only", "epochs": 1}
    places = {"COMPILEGATE_COMPILE_CACHE": str(tmp_path)}
    hardware = {**hardware_of(torch.device("cpu")), "threads": 1}
    (tmp_path / CacheKey({}, {}, hardware).archive_name).write_bytes(b"manifest.json, cut short")
    cold = train_job(places, **options).evidence
    cache = cold.compile_cache
    assert (cache.state, cache.hits, cache.misses) == ("ignored", 0, 2)
    assert " was ignored: it is damaged: " in cache.reason
    (archive,) = tmp_path.iterdir()
    assert archive.stat().st_size == cache.saved_bytes > 100_000

    job = train_job(places, **options)
    warm, found = job.evidence, job.evidence.compile_cache
    assert (found.state, found.hits, found.misses) == ("warm", 2, 0)
    assert (found.loaded_bytes, found.saved_bytes) == (cache.saved_bytes, 0)
    assert found.cold_compile_seconds == cold.compiler.compile_seconds
    assert warm.digests["model"] == cold.digests["model"]
    assert (warm.compiler.graphs, warm.compiler.ran) == (1, True)

    failed = train_job(places, on_failure="record", **{**options, **DIVERGING})
    assert "the training loss is" in str(failed.evidence.failure)
    assert list(tmp_path.iterdir()) == []  # what it loaded may be why
