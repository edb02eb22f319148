"""Training on XLA's CPU device, for real, in the environment of containers/xla."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from compilegate.gate.evidence import read_evidence
from compilegate.job.evidence import EvidenceRecord
from tests.environments.xla import QUICK_TO_COMPILE

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[3]
TrainJob = Callable[..., Any]


@pytest.fixture(scope="module")
def xla_job(train_job: TrainJob, xla_python: str) -> EvidenceRecord:
    """The evidence of a job that was trained with XLA, without dropout."""
    job = train_job(QUICK_TO_COMPILE, python=xla_python, compiler="xla", dropout=0)
    return job.evidence()


@pytest.fixture(scope="module")
def eager_job(train_job: TrainJob, xla_python: str) -> EvidenceRecord:
    """The evidence of the same job in the same environment, eager."""
    return train_job(python=xla_python, compiler="eager", dropout=0).evidence()


def test_every_step_is_an_execution_of_one_graph(xla_job: EvidenceRecord) -> None:
    compiler = xla_job.evidence.compiler
    assert (compiler.name, compiler.ran) == ("xla", True)
    assert (compiler.graphs, compiler.recompilations) == (1, 0)
    assert compiler.compile_seconds > 0
    proof = compiler.proof
    steps = len(xla_job.steps.loss)
    assert (proof["graphs_compiled"], proof["graphs_reused"]) == (1, steps - 1)
    assert (proof["device"], proof["executions"], proof["torch_xla"]) == ("CPU", steps, "2.9.0")
    assert 0 < float(str(proof["xla_compile_seconds"])) < xla_job.steps.seconds[0]


def test_xla_and_eager_train_the_same_model(
    xla_job: EvidenceRecord, eager_job: EvidenceRecord
) -> None:
    np.testing.assert_allclose(xla_job.steps.loss, eager_job.steps.loss, rtol=1e-4)
    np.testing.assert_allclose(xla_job.examples.scores, eager_job.examples.scores, atol=1e-3)
    ours, theirs = xla_job.evidence.recipe, eager_job.evidence.recipe
    assert ours == theirs
    assert xla_job.evidence.compiler.options == {"step_graphs": 4}


def test_the_parity_probe_compares_xlas_gradients_with_eagers(xla_job: EvidenceRecord) -> None:
    record, errors = xla_job.evidence.parity, xla_job.parity
    assert record is not None
    assert errors is not None, record.obstacle
    assert (record.obstacle, record.steps) == (None, 4)
    assert "gradient of bert.embeddings.word_embeddings.weight" in errors.tensors
    assert 0 < errors.compiled.max() < 100 * 2.0**-23


def test_dropout_averaging_and_bfloat16_leave_it_one_graph_and_parity_cannot_tell(
    train_job: TrainJob, xla_python: str
) -> None:
    job = train_job(
        QUICK_TO_COMPILE,
        python=xla_python,
        compiler="xla",
        averaging=0.9,
        precision="bf16",
        max_steps=12,
    )
    evidence = job.evidence().evidence
    assert evidence.compiler.graphs == 1
    assert evidence.parity is not None
    assert evidence.parity.obstacle == (
        "the model draws random numbers (dropout), and the compiler draws its own"
    )
    saved = load_file(str(job.model / "model.safetensors"))
    assert all(np.isfinite(each).all() for each in saved.values())


def test_what_would_be_compiled_again_and_again_is_refused_with_the_reason(
    xla_python: str,
) -> None:
    done = subprocess.run(
        [xla_python, Path(__file__).with_name("xla") / "guard.py"],
        env={**os.environ, **QUICK_TO_COMPILE, "PYTHONPATH": str(ROOT), "PJRT_DEVICE": "CPU"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["alike"]["failure"], found["alike"]["graphs"]) == (None, 1)
    assert found["alike"]["losses"][-1] < found["alike"]["losses"][0]
    assert len(found["varied"]["losses"]) == 4
    assert found["varied"]["failure"].startswith(
        "XLA would have to compile the training step once more, and its graphs may be 2; "
    )
    assert (found["varied and allowed"]["failure"], found["varied and allowed"]["graphs"]) == (
        None,
        1,  # the graphs of 8 and 7 are known by now
    )
    assert found["alike"]["recompilations"] == []
    assert found["varied and allowed"]["recompilations"] == [
        "step 4: a batch of inputs [6, 4], labels [6] is new"
    ]
    assert found["looking"]["losses"] == []
    assert found["looking"]["failure"].startswith(
        "the training step asks the XLA device for a value before it ends"
    )


def test_functions_of_any_form_have_eager_s_outputs_and_gradients_from_a_model_on_the_host(
    xla_python: str,
) -> None:
    done = subprocess.run(
        [xla_python, Path(__file__).with_name("xla") / "functions.py"],
        env={**os.environ, **QUICK_TO_COMPILE, "PYTHONPATH": str(ROOT), "PJRT_DEVICE": "CPU"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 4
    for form, differences in found.items():
        assert len(differences) >= 6, form
        assert max(differences) < 1e-5, form


def test_a_killed_job_resumes_with_the_very_same_dropout(
    start_job: Callable[..., Any], train_job: TrainJob, xla_python: str, tmp_path: Path
) -> None:
    options = {"python": xla_python, "compiler": "xla", "max_steps": 24, "parity_steps": 0}
    keeping = {**QUICK_TO_COMPILE, "COMPILEGATE_CHECKPOINTS": str(tmp_path)}
    whole = train_job(QUICK_TO_COMPILE, **options).evidence()
    process, _ = start_job({**keeping, "COMPILEGATE_CHECKPOINT_SECONDS": "0"}, **options)
    assert any(line.startswith("checkpoint after step 8") for line in process.stdout)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in (process.pid, *map(int, children)):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    resumed = train_job(keeping, **options).evidence()
    record = resumed.evidence.checkpoints
    assert record is not None
    assert record.resumed[0].step > 8
    assert np.array_equal(resumed.steps.loss, whole.steps.loss)
    assert resumed.evidence.digests["model"] == whole.evidence.digests["model"]


def test_torch_xlas_own_launcher_finds_what_it_calls(
    prepared: Path, xla_python: str, tmp_path: Path
) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "model").mkdir()
    options = {"arm": "a", "seed": 1, "compiler": "xla", "max_steps": 4, "parity_steps": 0}
    tiny = {"layers": 1, "hidden_size": 16, "intermediate_size": 16, "batch_size": 8}
    arguments = [f"--{name}={value}" for name, value in {**options, **tiny}.items()]
    done = subprocess.run(
        [xla_python, "tests/training/jobs/xla/launch.py", "training/train.py", *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            **QUICK_TO_COMPILE,
            "PYTHONPATH": str(ROOT),
            "PJRT_DEVICE": "CPU",
            "SM_CHANNEL_PREPARED": str(prepared),
            "SM_MODEL_DIR": str(tmp_path / "model"),
            "SM_OUTPUT_DATA_DIR": str(tmp_path / "evidence"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    evidence = read_evidence(tmp_path / "evidence" / "evidence").evidence
    assert (evidence.compiler.ran, evidence.recipe["steps"]) == (True, 4)


def test_a_loss_that_is_not_finite_ends_the_job(train_job: TrainJob, xla_python: str) -> None:
    job = train_job(
        QUICK_TO_COMPILE,
        python=xla_python,
        compiler="xla",
        learning_rate=1e30,
        on_failure="record",
    )
    assert job.evidence().evidence.failure.startswith("the training loss is nan in step ")


@pytest.fixture(scope="module")
def halves(train_job: TrainJob, xla_python: str) -> EvidenceRecord:
    """The evidence of `xla_job`'s training by two processes, each with half of every batch."""
    two = {"distribution": "torchrun", "processes": 2, "batch_size": 8}
    job = train_job(QUICK_TO_COMPILE, python=xla_python, compiler="xla", dropout=0, **two)
    return job.evidence()


def test_two_processes_train_what_one_does_with_their_batches_together(
    halves: EvidenceRecord, xla_job: EvidenceRecord
) -> None:
    np.testing.assert_allclose(halves.steps.loss, xla_job.steps.loss, rtol=1e-4)
    np.testing.assert_allclose(halves.examples.scores, xla_job.examples.scores, atol=1e-3)
    two, one = halves.evidence.recipe, xla_job.evidence.recipe
    assert (two["world_size"], two["global_batch_size"]) == (2, 16)
    assert two["data_order"] == one["data_order"]


def test_the_evidence_of_two_processes_says_that_their_gradients_met_on_the_host(
    halves: EvidenceRecord, xla_job: EvidenceRecord
) -> None:
    compiler = halves.evidence.compiler
    assert (compiler.ran, compiler.graphs, compiler.recompilations) == (True, 2, 0)
    assert compiler.proof["executions"] == 2 * len(halves.steps.loss)
    assert compiler.proof["gradients_averaged"] == (
        "in host memory, by gloo, between two graphs of a step"
    )
    assert xla_job.evidence.compiler.proof["gradients_averaged"] == "one process"


def test_machines_that_torch_xla_does_not_know_of_are_refused(
    train_job: TrainJob, xla_python: str
) -> None:
    machines = {"SM_HOSTS": '["algo-1", "algo-2"]', "SM_CURRENT_HOST": "algo-1"}
    job = train_job(machines, python=xla_python, compiler="xla")
    assert job.status == 1
    assert (
        "the job has 2 machines, and of their processes 1 would train together"
        in job.failure_file.read_text()
    )


def test_a_device_that_torch_xla_has_not_is_the_arms_failure(
    train_job: TrainJob, xla_python: str
) -> None:
    job = train_job({"PJRT_DEVICE": "CUDA"}, python=xla_python, compiler="xla", on_failure="record")
    assert job.evidence().evidence.failure.startswith(
        "torch_xla 2.9.0 opens no XLA device, asked for CUDA (No PjRtPlugin registered for: CUDA."
    )
