"""Training jobs whose compiler is set, or missing: what they leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import GPT2Config, GPT2ForSequenceClassification

pytestmark = [pytest.mark.slow, pytest.mark.long]

TrainJob = Callable[..., Any]


@pytest.mark.slow
def test_a_job_compiles_the_repeated_block_once_however_many_there_are(
    train_job: TrainJob, tmp_path: Path
) -> None:
    """As many layers as would be past torch's limit, if each were a graph of its own."""
    sizes = {"vocab_size": 200, "n_positions": 16, "n_embd": 32, "n_head": 2, "n_layer": 9}
    GPT2ForSequenceClassification(GPT2Config(**sizes, pad_token_id=0)).save_pretrained(tmp_path)
    job = train_job(compiler="inductor", model_id=tmp_path, epochs=1, regional="true")
    record = job.evidence()
    compiler, parity = record.evidence.compiler, record.evidence.parity
    assert (compiler.ran, compiler.graphs, compiler.recompilations) == (True, 1, 0)
    assert compiler.options["regional"] is True
    assert compiler.proof["graph_calls"] >= 9 * 20
    assert (parity.obstacle, parity.steps) == (None, 4)
    assert "regional" not in record.evidence.recipe


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "reason"),
    [
        (
            "training-compiler",
            "training-compiler is part of AWS's images for it, and this environment has no "
            "torch_xla; run the arm in the image 'training-compiler' on SageMaker",
        ),
        (
            "neuron",
            "neuron needs the package torch_neuronx, and this environment has none; run the arm "
            "in the image 'neuron' on a Trainium instance",
        ),
    ],
)
def test_a_job_in_another_image_ends_with_the_reason(
    train_job: TrainJob, compiler: str, reason: str
) -> None:
    job = train_job(arm="compiled", compiler=compiler)
    assert job.status == 1
    assert job.failure_file.read_text() == reason


@pytest.mark.slow
def test_a_job_compiles_with_another_backend_and_keeps_nothing_of_it(
    train_job: TrainJob, tmp_path: Path
) -> None:
    cache = {"COMPILEGATE_COMPILE_CACHE": str(tmp_path / "archives")}
    told = {"compiler": "torch-compile", "backend": "aot_eager"}
    job = train_job(cache, arm="compiled", epochs=1, **told)
    evidence = job.evidence().evidence
    assert (evidence.compiler.name, evidence.compiler.ran) == ("torch-compile", True)
    assert evidence.compiler.options["backend"] == "aot_eager"
    assert evidence.compiler.proof["cache"] == "keeps nothing"
    assert evidence.compile_cache is None
    assert (evidence.parity.obstacle, evidence.parity.steps) == (None, 4)


@pytest.mark.slow
def test_cuda_graphs_without_a_gpu_end_the_job_with_the_reason(train_job: TrainJob) -> None:
    job = train_job(arm="compiled", compiler="torch-compile", backend="cudagraphs")
    assert job.status == 1
    assert job.failure_file.read_text() == (
        "backend 'cudagraphs' needs a GPU, and the model is on 'cpu'; take an instance with one, "
        "or another backend"
    )


@pytest.mark.slow
def test_a_candidate_that_has_no_compiler_is_evidence_against_it(train_job: TrainJob) -> None:
    record = train_job(arm="compiled", compiler="training-compiler", on_failure="record").evidence()
    assert record.evidence.failure is not None
    assert "no torch_xla" in record.evidence.failure
    assert not record.evidence.compiler.ran
