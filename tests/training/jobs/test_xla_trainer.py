"""The shipped script that fine-tunes with Trainer, under PyTorch/XLA: Training Compiler's route,
as far as this machine has it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import BertConfig, BertModel

from compilegate.gate.evidence import read_evidence
from compilegate.job.contract import SCRIPT_VARIABLE
from compilegate.job.evidence import EvidenceRecord
from tests.environments.xla import QUICK_TO_COMPILE
from tests.training.conftest import ROOT, start_python

pytestmark = [pytest.mark.slow, pytest.mark.long]

SCRIPT = ROOT / "workloads" / "documents-bert" / "train.py"
LAUNCHED = ROOT / "compilegate" / "job" / "launch" / "script_process.py"
LENGTH, CLASSES, BATCH = 16, 2, 8


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents as the workload's prepare.py leaves them, and a small checkpoint."""
    folder = tmp_path_factory.mktemp("documents")
    for name, count in (("train", 30 * BATCH), ("validation", 60)):
        labels = np.arange(count) % CLASSES
        tokens = np.random.default_rng(count).integers(5, 30, (count, LENGTH))
        tokens += 25 * labels[:, None]
        ones, zeros = np.ones_like(tokens), np.zeros_like(tokens)
        columns = {"input_ids": tokens, "attention_mask": ones, "token_type_ids": zeros}
        np.savez(folder / f"{name}.npz", labels=labels, **columns)
    (folder / "classes.json").write_text(json.dumps(["ship", "trade"]))
    checkpoint = folder / "checkpoint"
    size = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    dropout = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
    BertModel(BertConfig(**size, **dropout, intermediate_size=64)).save_pretrained(checkpoint)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{at}" for at in range(59))]
    (checkpoint / "vocab.txt").write_text("\n".join(words))
    (checkpoint / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    return folder


def train(
    python: str, folder: Path, prepared: Path, compiler: str, precision: str
) -> EvidenceRecord:
    arm = {"seed": 1, "batch_size": BATCH, "learning_rate": 3e-3, "parity_steps": 4}
    arm |= {"compiler": compiler, "precision": precision, "evaluate_on": "host"}
    process = start_python(
        *(str(LAUNCHED), "--model_name", str(prepared / "checkpoint"), "--epochs", "2"),
        python=python,
        environment={
            **QUICK_TO_COMPILE,
            "COMPILEGATE_JOB": json.dumps({"job": "j", "arm": compiler, **arm}),
            SCRIPT_VARIABLE: str(SCRIPT),
            "SM_CHANNEL_PREPARED": str(prepared),
            "SM_MODEL_DIR": str(folder / "model"),
            "SM_OUTPUT_DATA_DIR": str(folder / "output"),
            "PJRT_DEVICE": "CPU",
            "HF_HUB_OFFLINE": "1",
        },
    )
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert load_file(folder / "model" / "model.safetensors")
    return read_evidence(folder / "output" / "evidence")


def test_trainer_under_xla_trains_the_model_that_it_trains_eager(
    xla_python: str, prepared: Path, tmp_path: Path
) -> None:
    """All arms evaluate on the host in float32, since XLA keeps the accelerator to itself."""
    eager = train(sys.executable, tmp_path / "eager", prepared, "eager", "fp32")
    xla = train(xla_python, tmp_path / "xla", prepared, "xla", "fp32")
    assert (xla.evidence.compiler.ran, xla.evidence.failure) == (True, None)
    np.testing.assert_allclose(xla.steps.loss, eager.steps.loss, rtol=1e-3)
    np.testing.assert_allclose(xla.examples.scores, eager.examples.scores, atol=2e-3)
    mixed = train(xla_python, tmp_path / "mixed", prepared, "xla", "bf16")
    assert mixed.evidence.recipe["precision"] == "bf16"
    assert mixed.evidence.metrics["accuracy"] > 0.9
    for record in (eager, xla, mixed):
        recipe = record.evidence.recipe
        assert (recipe["evaluated_on"], recipe["evaluated_in"]) == ("host", "fp32")
