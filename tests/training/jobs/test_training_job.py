"""Whole training jobs, as processes: what they leave behind when they succeed and when not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from compilegate.gate.evidence import read_evidence
from compilegate.gate.settings import ParitySettings
from compilegate.job import endings
from compilegate.job.evidence import EvidenceRecord, column_digests
from compilegate.job.evidence.parity import error_ratios
from compilegate.job.files import file_digest, folder_digest
from training.data.prepared import read_prepared

pytestmark = [pytest.mark.slow, pytest.mark.long]

TrainJob = Callable[..., Any]
METRIC_REGEX = r"{}=([0-9.eE+-]+|nan|inf)"
DIVERGING = {"learning_rate": 1e30, "warmup_fraction": 0, "gradient_clip": 0}


@pytest.fixture(scope="module")
def eager(train_job: TrainJob) -> Any:
    """A finished eager job."""
    return train_job(averaging=0.9)


@pytest.fixture(scope="module")
def inductor(train_job: TrainJob) -> Any:
    """A finished inductor job with the eager one's recipe and seed."""
    return train_job(averaging=0.9, compiler="inductor", arm="compiler-only")


@pytest.mark.parametrize("compiler", ["eager", "inductor"])
def test_logging_and_evaluating_in_between_change_nothing_that_is_trained(
    train_job: TrainJob, request: pytest.FixtureRequest, compiler: str
) -> None:
    quiet = request.getfixturevalue(compiler).evidence()
    looked_at = train_job(
        averaging=0.9,
        compiler=compiler,
        arm="baseline" if compiler == "eager" else "compiler-only",
        log_every_steps=25,
        evaluate_every_epochs=1,
    )
    record = looked_at.evidence()
    lines = [line for line in looked_at.stdout.splitlines() if line.startswith("step=")]
    logged = [line.split()[0] for line in lines if "train:samples_per_second" in line]
    assert logged == ["step=25/60", "step=50/60", "step=60/60"]
    evaluated = [line for line in lines if "validation:accuracy" in line]
    assert [line.split()[:2] for line in evaluated] == [
        ["step=20/60", "epoch=1"],
        ["step=40/60", "epoch=2"],
    ]
    accuracies = [float(re.search(r"accuracy=([0-9.]+)", line)[1]) for line in evaluated]
    assert 0.2 < accuracies[0] <= 1.0
    np.testing.assert_array_equal(record.steps.loss, quiet.steps.loss)
    np.testing.assert_array_equal(record.examples.scores, quiet.examples.scores)
    assert record.evidence.compiler.recompilations == 0
    assert record.evidence.recipe["evaluate_every_epochs"] == 1


def test_an_eager_job_learns_and_writes_whole_evidence(eager: Any, prepared: Path) -> None:
    record = eager.evidence()
    evidence = record.evidence
    assert (evidence.job, evidence.arm, evidence.seed) == ("job-under-test", "baseline", 1)
    assert evidence.failure is None
    assert evidence.metrics["accuracy"] > 0.8
    assert evidence.recipe["steps"] == len(record.steps.loss) == 3 * (320 // 16)
    assert record.steps.loss[-10:].mean() < record.steps.loss[:10].mean()
    assert evidence.speed.steady_from == 6
    assert 0 < evidence.speed.train_seconds < evidence.speed.total_seconds
    assert evidence.peak_memory_bytes > 50e6
    assert evidence.environment["torch"] == torch.__version__
    assert evidence.digests["data"] == file_digest(prepared / "manifest.json")
    assert evidence.digests["model"] == folder_digest(eager.model)
    columns = column_digests(record.steps, record.examples, record.parity)
    assert {name: evidence.digests[name] for name in columns} == columns


def test_an_eager_job_proves_that_nothing_was_compiled(eager: Any) -> None:
    compiler = eager.evidence().evidence.compiler
    assert (compiler.name, compiler.ran) == ("eager", False)
    assert compiler.proof["graphs_compiled"] == 0
    assert (compiler.compile_seconds, compiler.graphs, compiler.recompilations) == (0, 0, 0)


def test_the_metrics_in_the_log_are_those_of_the_evidence(eager: Any) -> None:
    metrics = eager.evidence().evidence.metrics
    for name, value in metrics.items():
        (found,) = re.findall(METRIC_REGEX.format(f"validation:{name}"), eager.stdout)
        assert float(found) == pytest.approx(value, abs=1e-6)
    assert re.search(r"^step=60/60 epoch=3 train:loss=\d", eager.stdout, re.MULTILINE)
    for name in ("train:steady_samples_per_second", "train:compile_seconds"):
        assert len(re.findall(METRIC_REGEX.format(name), eager.stdout)) == 1


def test_the_saved_model_gives_the_evidence_its_scores_from_plain_text(
    eager: Any, raw_data: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(eager.model)
    model = AutoModelForSequenceClassification.from_pretrained(eager.model).eval()
    texts = [
        line.split('"text": "')[1].split('"')[0]
        for line in (raw_data / "validation.jsonl").read_text().splitlines()
    ]
    inputs = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        scores = torch.softmax(model(**inputs).logits.double(), dim=1).numpy()
    np.testing.assert_allclose(scores, eager.evidence().examples.scores, atol=1e-5)
    assert model.config.id2label == {0: "finance", 1: "harvest", 2: "shipping"}


def untimed_digests(record: EvidenceRecord) -> dict[str, str | None]:
    """Without that of the steps, which holds their times."""
    digests = record.evidence.digests
    return {"parity": None, **{name: digests[name] for name in digests if name != "steps"}}


def test_the_same_job_twice_gives_the_same_model(train_job: TrainJob, eager: Any) -> None:
    again = train_job(averaging=0.9).evidence()
    first = eager.evidence()
    assert untimed_digests(again) == untimed_digests(first)
    np.testing.assert_array_equal(again.steps.loss, first.steps.loss)
    np.testing.assert_array_equal(again.examples.scores, first.examples.scores)


def test_another_seed_gives_another_model_and_order(train_job: TrainJob, eager: Any) -> None:
    other = train_job(averaging=0.9, seed=2).evidence().evidence
    first = eager.evidence().evidence
    assert other.digests["model"] != first.digests["model"]
    assert other.recipe["data_order"] != first.recipe["data_order"]
    assert other.digests["examples"] == first.digests["examples"]


def test_bf16_trains_and_is_evaluated_in_float32(train_job: TrainJob) -> None:
    record = train_job(precision="bf16", max_steps=20).evidence()
    assert record.evidence.recipe["precision"] == "bf16"
    assert len(record.steps.loss) == 20
    assert np.isfinite(record.examples.losses).all()
    np.testing.assert_allclose(record.examples.scores.sum(axis=1), 1)


def test_a_trained_model_can_be_fine_tuned(train_job: TrainJob, eager: Any) -> None:
    tuned = train_job(model_id=str(eager.model), max_steps=5, learning_rate=1e-5).evidence()
    assert tuned.evidence.recipe["model_id"] == str(eager.model)
    assert tuned.steps.loss[0] < eager.evidence().steps.loss[0] / 2


def test_inductor_proves_that_its_graphs_served_every_step(inductor: Any) -> None:
    compiler = inductor.evidence().evidence.compiler
    assert (compiler.name, compiler.ran) == ("inductor", True)
    assert compiler.proof["graph_calls"] == 60  # the steps', and none of the probe's
    assert compiler.proof["kernels"] > 0
    assert compiler.proof["cache"] == "fresh"
    assert (compiler.graphs, compiler.graph_breaks, compiler.recompilations) == (1, 0, 0)
    assert compiler.compile_seconds > 0


def test_inductor_and_eager_take_the_same_early_steps(inductor: Any, eager: Any) -> None:
    compiled, plain = inductor.evidence(), eager.evidence()
    assert compiled.evidence.recipe["data_order"] == plain.evidence.recipe["data_order"]
    np.testing.assert_allclose(compiled.steps.loss[:20], plain.steps.loss[:20], rtol=1e-4)


def test_inductor_shows_that_its_arithmetic_is_as_good_as_eagers(inductor: Any) -> None:
    record = inductor.evidence()
    parity, errors = record.evidence.parity, record.parity
    assert (parity.precision, parity.steps, parity.obstacle) == ("fp32", 4, None)
    assert "compiled tensors of 4 calls err at most" in inductor.stderr
    assert error_ratios(errors, "fp32").max() < ParitySettings().fp32_limit / 2
    assert errors.repeated.max() == 0
    assert (errors.compiled != errors.eager).any()  # it is another program all the same


def test_the_probe_leaves_no_trace_in_what_is_released(train_job: TrainJob, inductor: Any) -> None:
    without = train_job(averaging=0.9, compiler="inductor", arm="compiler-only", parity_steps=0)
    record = without.evidence()
    assert (record.evidence.parity, record.parity) == (None, None)
    with_probe = untimed_digests(inductor.evidence())
    assert untimed_digests(record) == {**with_probe, "parity": None}


def test_an_eager_job_has_nothing_to_compare(eager: Any) -> None:
    assert eager.evidence().evidence.parity is None
    assert not (eager.evidence_folder / "parity.npz").exists()


def test_a_compiled_model_is_saved_like_any_other(inductor: Any, eager: Any) -> None:
    compiled = AutoModelForSequenceClassification.from_pretrained(inductor.model)
    plain = AutoModelForSequenceClassification.from_pretrained(eager.model)
    assert list(compiled.state_dict()) == list(plain.state_dict())
    assert (inductor.model / "config.json").read_text() == (eager.model / "config.json").read_text()


def test_inductor_without_a_cpp_compiler_says_what_to_install(train_job: TrainJob) -> None:
    job = train_job({"CXX": "no-such-compiler"}, compiler="inductor", on_failure="record")
    evidence = job.evidence().evidence
    assert "there is no C++ compiler" in evidence.failure
    assert "install g++" in evidence.failure
    assert not evidence.compiler.ran


def test_a_diverging_arm_stops_before_the_update_with_one_sentence(train_job: TrainJob) -> None:
    job = train_job(**DIVERGING)
    assert job.status == 1
    reason = job.failure_file.read_text()
    assert reason == ("the training loss is nan in step 1 (epoch 1) at learning rate 9.83e+29")
    assert f"error: {reason}\n" in job.stderr
    assert "Traceback" not in job.stderr
    assert not job.evidence_folder.exists()
    assert not any(job.model.iterdir())


def test_a_diverging_candidate_is_recorded_as_evidence(train_job: TrainJob) -> None:
    job = train_job(**DIVERGING, on_failure="record", arm="candidate")
    record = job.evidence()
    assert record.evidence.failure.startswith("the training loss is ")
    assert record.evidence.arm == "candidate"
    assert record.evidence.recipe["learning_rate"] == 1e30
    assert record.evidence.speed is None
    assert (record.steps, record.examples) == (None, None)
    assert job.failure_file.read_text() == record.evidence.failure


def test_changed_data_stop_even_a_job_that_records_failures(
    train_job: TrainJob, prepared: Path, tmp_path: Path
) -> None:
    for path in prepared.rglob("*"):
        if path.is_file():
            target = tmp_path / path.relative_to(prepared)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes() + (b" " if path.name == "train.npz" else b""))
    job = train_job({"SM_CHANNEL_PREPARED": str(tmp_path)}, on_failure="record")
    assert job.status == 1
    assert "train.npz has sha256" in job.failure_file.read_text()


def test_a_batch_larger_than_the_data_is_refused(train_job: TrainJob, prepared: Path) -> None:
    job = train_job(batch_size=321)
    assert job.status == 1
    assert "--batch_size is 321, but the train split has 320 documents" in job.stderr
    assert read_prepared(prepared).manifest.counts["train"] == 320


def test_a_training_killed_at_each_start_is_recorded_as_lost(
    start_job: Callable[..., tuple[subprocess.Popen[str], Path]],
) -> None:
    parent, folder = start_job(epochs=100_000, on_failure="record")
    assert parent.stdout is not None
    for _ in range(endings.KILLED.attempts):
        assert any(line.startswith("step=") for line in parent.stdout)
        (child,) = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
    parent.communicate()
    assert parent.returncode == 0
    evidence = read_evidence(folder / "output" / "data" / "evidence").evidence
    assert (evidence.ending, evidence.attempts) == (endings.KILLED.name, (endings.KILLED.name,))
    assert "killed by SIGKILL" in evidence.failure
