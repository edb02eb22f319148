"""Whole training jobs of one process: eager and compiled, at full length and padded to less."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from compilegate.catalog.instances import accelerators_of
from compilegate.gate.settings import ParitySettings
from compilegate.job.evidence import EvidenceRecord, column_digests
from compilegate.job.evidence.parity import error_ratios
from compilegate.job.files import file_digest, folder_digest
from compilegate.job.machine.accelerators import describing
from tests.training.conftest import JobResult, PrepareProcess, TrainJob, documents, write_jsonl
from training.data.prepared import read_prepared
from training.evaluation import logits_of
from training.hyperparameters import Hyperparameters
from training.model import load_model

pytestmark = [pytest.mark.slow, pytest.mark.long]

COMPILED = {"compiler": "inductor", "arm": "compiler-only"}


@pytest.fixture(scope="module")
def eager(train_job: TrainJob) -> JobResult:
    return train_job(averaging=0.9)


@pytest.fixture(scope="module")
def inductor(train_job: TrainJob) -> JobResult:
    """With the eager job's recipe and seed."""
    return train_job(averaging=0.9, **COMPILED)


def test_an_eager_job_learns_and_writes_whole_evidence(eager: JobResult, prepared: Path) -> None:
    record, evidence = eager.record, eager.evidence
    assert (evidence.job, evidence.arm, evidence.seed) == ("job-under-test", "baseline", 1)
    assert (evidence.failure, evidence.parity) == (None, None)
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
    compiler = evidence.compiler
    assert (compiler.name, compiler.ran, compiler.graphs) == ("eager", False, 0)
    assert compiler.proof["graphs_compiled"] == 0


def test_the_metrics_in_the_log_are_those_of_the_evidence(eager: JobResult) -> None:
    for name, value in eager.evidence.metrics.items():
        (found,) = re.findall(rf"validation:{name}=(\S+)", eager.stdout)
        assert float(found) == pytest.approx(value, abs=1e-6)
    assert re.search(r"^step=60/60 epoch=3 train:loss=\d", eager.stdout, re.MULTILINE)
    for name in ("train:steady_samples_per_second", "train:compile_seconds"):
        assert eager.stdout.count(f"{name}=") == 1


def test_the_saved_model_gives_the_evidence_its_scores_from_plain_text(
    eager: JobResult, raw_data: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(eager.model)
    model = AutoModelForSequenceClassification.from_pretrained(eager.model).eval()
    lines = (raw_data / "validation.jsonl").read_text().splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    inputs = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        scores = torch.softmax(model(**inputs).logits.double(), dim=1).numpy()
    np.testing.assert_allclose(scores, eager.record.examples.scores, atol=1e-5)
    assert model.config.id2label == {0: "finance", 1: "harvest", 2: "shipping"}


def untimed(record: EvidenceRecord) -> dict[str, str | None]:
    """The digests, without that of the steps, which holds their times."""
    digests = record.evidence.digests
    return {"parity": None, **{name: digests[name] for name in digests if name != "steps"}}


@pytest.mark.parametrize("compiler", ["eager", "inductor"])
def test_logs_evaluations_and_probes_in_between_change_nothing_that_is_trained(
    train_job: TrainJob, request: pytest.FixtureRequest, compiler: str
) -> None:
    """It is the same job twice, too."""
    quiet = request.getfixturevalue(compiler).record
    arm = COMPILED if compiler == "inductor" else {}
    again = train_job(averaging=0.9, log_every_steps=25, evaluate_every_epochs=1, **arm)
    lines = [line.split() for line in again.stdout.splitlines() if line.startswith("step=")]
    logged = [words[0] for words in lines if "train:samples_per_second" in words[-1]]
    assert logged == ["step=25/60", "step=50/60", "step=60/60"]
    evaluated = [words for words in lines if "validation:log_loss" in words[-1]]
    assert [words[:2] for words in evaluated] == [
        ["step=20/60", "epoch=1"],
        ["step=40/60", "epoch=2"],
    ]
    assert 0.2 < float(evaluated[0][2].partition("=")[2]) <= 1.0
    np.testing.assert_array_equal(again.record.steps.loss, quiet.steps.loss)
    assert again.evidence.digests["model"] == quiet.evidence.digests["model"]
    assert again.evidence.digests["examples"] == quiet.evidence.digests["examples"]
    assert again.evidence.compiler.recompilations == 0
    if compiler == "inductor":
        without = train_job(averaging=0.9, parity_steps=0, **arm).record
        assert (without.evidence.parity, without.parity) == (None, None)
        assert untimed(without) == {**untimed(quiet), "parity": None}


def test_another_seed_gives_another_model_and_order(train_job: TrainJob, eager: JobResult) -> None:
    other, first = train_job(averaging=0.9, seed=2).evidence, eager.evidence
    assert other.digests["model"] != first.digests["model"]
    assert other.recipe["data_order"] != first.recipe["data_order"]
    assert other.digests["examples"] == first.digests["examples"]


def test_a_trained_model_is_fine_tuned_in_bf16_and_timed_against_its_baseline(
    train_job: TrainJob, eager: JobResult
) -> None:
    baseline = {"baseline_compiler": "eager", "baseline_batch_size": 8}
    record = train_job(
        **{"arm": "larger", "model_id": eager.model, "max_steps": 12, "learning_rate": 1e-5},
        **{"precision": "bf16", **baseline, "baseline_precision": "fp32"},
        speed_probe_seconds=4,
    ).record
    recipe, speed, pairs = record.evidence.recipe, record.evidence.paired_speed, record.paired
    assert (recipe["model_id"], recipe["precision"]) == (str(eager.model), "bf16")
    assert recipe["evaluated_in"] == "fp32"
    assert record.steps.loss[0] < eager.record.steps.loss[0] / 2
    assert np.isfinite(record.examples.losses).all()
    assert (speed.obstacle, speed.baseline_batch_size, speed.candidate_batch_size) == (None, 8, 16)
    assert len(pairs.baseline_first) >= 6


def test_inductor_serves_every_step_as_eager_would(inductor: JobResult, eager: JobResult) -> None:
    record, plain = inductor.record, eager.record
    compiler, parity = record.evidence.compiler, record.evidence.parity
    assert (compiler.name, compiler.ran) == ("inductor", True)
    assert compiler.proof["graph_calls"] == 60  # the steps', and none of the probe's
    assert compiler.proof["kernels"] > 0
    assert compiler.proof["cache"] == "fresh"
    assert (compiler.graphs, compiler.graph_breaks, compiler.recompilations) == (1, 0, 0)
    assert compiler.compile_seconds > 0
    assert record.evidence.recipe["data_order"] == plain.evidence.recipe["data_order"]
    np.testing.assert_allclose(record.steps.loss[:20], plain.steps.loss[:20], rtol=1e-4)
    assert (parity.precision, parity.steps, parity.obstacle) == ("fp32", 4, None)
    assert error_ratios(record.parity, "fp32").max() < ParitySettings().fp32_limit / 2
    assert record.parity.repeated.max() == 0
    assert (record.parity.compiled != record.parity.eager).any()  # it is another program
    files = [(each.model / "config.json").read_text() for each in (inductor, eager)]
    states = [list(load_model(each.model).state_dict()) for each in (inductor, eager)]
    assert (files[0], states[0]) == (files[1], states[1])


def test_on_a_described_machine_a_job_takes_its_paths_and_says_so(train_job: TrainJob) -> None:
    """fp16 is for GPUs; the memory is that of this process, and so named."""
    machine = {"COMPILEGATE_MACHINE": describing(accelerators_of("ml.p3.8xlarge"))}
    evidence = train_job(machine, max_steps=6, precision="fp16").evidence
    found, recipe = evidence.environment, evidence.recipe
    names = ("accelerator", "accelerators", "accelerator_memory_bytes", "accelerator_capability")
    assert [found[name] for name in names] == ["V100", 4, 16 * 2**30, "7.0"]
    assert json.loads(str(found["described"]))["accelerator"] == "V100"
    assert (found["instance_type"], found["threads"]) == (None, None)
    assert (recipe["device"], recipe["evaluated_on"]) == ("cuda", "accelerator")
    assert (recipe["precision"], recipe["evaluated_in"]) == ("fp16", "fp32")
    assert evidence.memory_of == "process"
    assert any(each.startswith("This is a rehearsal") for each in evidence.notes)


LONG = 64


@pytest.fixture(scope="module")
def lengthy(prepare_process: PrepareProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared documents that are short, and some that are long enough to be cut."""
    raw, output = tmp_path_factory.mktemp("raw"), tmp_path_factory.mktemp("lengthy")
    write_jsonl(raw / "train.jsonl", documents(330, seed=1, filler=(1, 2, 3, 80)))
    write_jsonl(raw / "validation.jsonl", documents(90, seed=2, filler=(1, 2, 3, 80)))
    result = prepare_process(raw, output, "--sequence-length", str(LONG))
    assert result.returncode == 0, result.stderr
    return output


def test_padding_to_less_trains_on_the_same_documents_and_is_evaluated_alike(
    train_job: TrainJob, lengthy: Path
) -> None:
    def train(**options: Any) -> JobResult:
        # Without dropout: its masks depend on shapes.
        return train_job({"SM_CHANNEL_PREPARED": str(lengthy)}, dropout=0.0, **options)

    whole, short = train().record, train(padding="longest").record
    assert short.evidence.recipe["data_order"] == whole.evidence.recipe["data_order"]
    np.testing.assert_allclose(short.steps.loss[:20], whole.steps.loss[:20], rtol=1e-4)
    job = train(padding="buckets", **COMPILED)
    record, evidence, compiler = job.record, job.evidence, job.evidence.compiler
    assert (compiler.graphs, compiler.graph_breaks, compiler.recompilations) == (2, 0, 0)
    assert compiler.proof["graph_calls"] == evidence.recipe["steps"] == 60
    assert evidence.speed.steady_from == 2 + 5
    assert (evidence.parity.obstacle, evidence.parity.steps) == (None, 4)
    assert error_ratios(record.parity, "fp32").max() < ParitySettings().fp32_limit / 2

    paddings = [each.padding for each in (whole.evidence, short.evidence, evidence)]
    assert [each.padding for each in paddings] == ["max", "longest", "buckets"]
    assert [each.lengths for each in paddings] == [(LONG,), (), (8, LONG)]
    assert {each.bucket_lengths for each in paddings} == {(8, LONG)}
    assert {each.histogram_documents for each in paddings} == {paddings[0].histogram_documents}
    assert {each.positions for each in paddings} == {paddings[0].positions}
    assert (sum(paddings[0].histogram_documents), paddings[0].positions.max) == (330, 320 * LONG)
    assert paddings[0].share > 0.6
    assert paddings[2].share < 0.4

    split = read_prepared(lengthy).validation
    logits = logits_of(load_model(job.model), split, torch.device("cpu"), Hyperparameters())
    assert record.examples.ids.tolist() == split.ids.tolist()
    scores = torch.from_numpy(logits).softmax(1).numpy()
    np.testing.assert_allclose(record.examples.scores, scores, atol=1e-5)
    assert evidence.metrics["accuracy"] > 0.7
