"""Training jobs of several processes, started by torchrun: gloo, on this machine's cores."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from compilegate.job import endings

pytestmark = [pytest.mark.slow, pytest.mark.long]

TrainJob = Callable[..., Any]
StartJob = Callable[..., Any]
TWO = {"distribution": "torchrun", "processes": 2, "batch_size": 8}
RECIPE = {"epochs": 2, "dropout": 0.0, "averaging": 0.9}
"""Two processes draw other dropout masks than one."""


@pytest.fixture(scope="module")
def alone(train_job: TrainJob) -> Any:
    """A job of one process, with batches of 16."""
    return train_job(batch_size=16, **RECIPE)


@pytest.fixture(scope="module")
def together(train_job: TrainJob) -> Any:
    """A job of two processes, with batches of 8 each."""
    return train_job(**TWO, **RECIPE)


def test_two_processes_train_as_one_does_with_their_batches_together(
    alone: Any, together: Any
) -> None:
    one, two = alone.evidence(), together.evidence()
    np.testing.assert_allclose(two.steps.loss, one.steps.loss, rtol=2e-4)
    weights, expected = (load_file(job.model / "model.safetensors") for job in (together, alone))
    # A key's bias is noise alone: its gradient is zero in exact arithmetic.
    told = {name: each for name, each in expected.items() if not name.endswith("key.bias")}
    for name, each in told.items():
        np.testing.assert_allclose(weights[name], each, rtol=1e-2, atol=1e-4, err_msg=name)
    assert two.evidence.metrics["accuracy"] == pytest.approx(one.evidence.metrics["accuracy"], 0.02)


def test_the_evidence_says_how_many_trained_with_how_much(alone: Any, together: Any) -> None:
    one, two = alone.evidence().evidence.recipe, together.evidence().evidence.recipe
    assert (one["world_size"], one["batch_size"], one["global_batch_size"]) == (1, 16, 16)
    assert (two["world_size"], two["batch_size"], two["global_batch_size"]) == (2, 8, 16)
    assert (one["data_order"], one["steps"]) == (two["data_order"], two["steps"])
    assert (one["warmup_steps"], two["warmup_steps"]) == (4, 4)  # a tenth of 40


def test_the_speed_counts_the_documents_of_all_processes(together: Any) -> None:
    record = together.evidence()
    steady = record.steps.seconds[record.evidence.speed.steady_from :]
    assert record.evidence.speed.samples_per_second == pytest.approx(
        16 * len(steady) / steady.sum()
    )
    assert len(re.findall(r"^step=40/40 ", together.stdout, re.MULTILINE)) == 1


def test_two_processes_train_through_compiled_code_that_passes_the_parity_probe(
    train_job: TrainJob,
) -> None:
    # The shapes of the other tests' jobs that compile: their kernels are there.
    two = {**TWO, "batch_size": 16}
    job = train_job(**two, epochs=1, compiler="inductor", arm="compiler-only")
    record = job.evidence()
    compiler, parity = record.evidence.compiler, record.evidence.parity
    assert (compiler.ran, compiler.graphs, compiler.recompilations) == (True, 1, 0)
    assert (parity.obstacle, parity.steps) == (None, 4)
    assert record.evidence.recipe["world_size"] == 2


def test_the_process_that_fails_gives_the_reason(train_job: TrainJob) -> None:
    diverging = {"learning_rate": 1e30, "warmup_fraction": 0, "gradient_clip": 0}
    job = train_job(**TWO, **diverging, on_failure="record")
    failure = job.evidence().evidence.failure
    assert re.match(r"the training loss is (nan|inf) in step \d", failure)


def test_a_signal_that_kills_one_is_the_reason_and_not_the_connection_that_the_other_lost(
    start_job: StartJob, tmp_path: Path
) -> None:
    archive = tmp_path / "machine.tar"
    archive.write_bytes(b"code")
    process, folder = start_job({"COMPILEGATE_COMPILE_CACHE": str(tmp_path)}, **TWO, epochs=1000)
    for _ in range(endings.WRONG_CODE.attempts):
        assert any(line.startswith("step=") for line in process.stdout)
        (launcher,) = children(process.pid)
        os.kill(children(launcher)[1], signal.SIGSEGV)
    process.communicate()
    assert process.returncode == 1
    reason = (folder / "output" / "failure").read_text()
    assert reason.startswith("training process 1 was killed by SIGSEGV; machine code was wrong")
    assert reason.endswith("(attempt 2; before, it ended by: wrong code)")
    assert not archive.exists()  # what was compiled may be why


def children(pid: int) -> list[int]:
    """The processes that a process started, in order."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_what_every_arm_would_fail_of_is_not_recorded_as_the_arm_s(train_job: TrainJob) -> None:
    job = train_job(**{**TWO, "batch_size": 200}, on_failure="record")
    assert job.status == 1
    assert job.failure_file.read_text() == (
        "--batch_size is 200 in each of 2 processes, but the train split has 320 documents"
    )
