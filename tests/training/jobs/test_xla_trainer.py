"""The shipped script that fine-tunes with Trainer, under PyTorch/XLA: Training Compiler's route,
as far as this machine has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import BertConfig, BertModel

from compilegate.gate.evidence import read_evidence
from compilegate.job.evidence import EvidenceRecord
from compilegate.job.names import SCRIPT_VARIABLE
from tests.environments.xla import QUICK_TO_COMPILE

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "workloads" / "documents-bert" / "train.py"
LAUNCHED = ROOT / "compilegate" / "job" / "launch" / "script_process.py"
LENGTH, CLASSES, BATCH = 16, 2, 8


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents as the workload's prepare.py leaves them, and a small checkpoint."""
    folder = tmp_path_factory.mktemp("documents")
    for name, count in (("train", 30 * BATCH), ("validation", 60)):
        chance = np.random.default_rng(count)
        labels = np.arange(count) % CLASSES
        tokens = chance.integers(5, 30, (count, LENGTH)) + 25 * labels[:, None]
        ones, zeros = np.ones_like(tokens), np.zeros_like(tokens)
        columns = {"input_ids": tokens, "attention_mask": ones, "token_type_ids": zeros}
        np.savez(folder / f"{name}.npz", labels=labels, **columns)
    (folder / "classes.json").write_text(json.dumps(["ship", "trade"]))
    checkpoint = folder / "checkpoint"
    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    BertModel(config).save_pretrained(checkpoint)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{at}" for at in range(59))]
    (checkpoint / "vocab.txt").write_text("\n".join(words))
    (checkpoint / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    return folder


def train(
    python: str, folder: Path, prepared: Path, told: Mapping[str, object]
) -> tuple[EvidenceRecord, Path]:
    """The evidence of a job of the script, and its model's folder."""
    arm = {"seed": 1, "batch_size": BATCH, "learning_rate": 3e-3, "parity_steps": 4, **told}
    done = subprocess.run(
        [python, str(LAUNCHED), "--model_name", str(prepared / "checkpoint"), "--epochs", "2"],
        env={
            **os.environ,
            **QUICK_TO_COMPILE,
            "COMPILEGATE_JOB": json.dumps({"job": "j", "arm": told["compiler"], **arm}),
            SCRIPT_VARIABLE: str(SCRIPT),
            "SM_CHANNEL_PREPARED": str(prepared),
            "SM_MODEL_DIR": str(folder / "model"),
            "SM_OUTPUT_DATA_DIR": str(folder / "output"),
            "PYTHONPATH": str(ROOT),
            "PJRT_DEVICE": "CPU",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return read_evidence(folder / "output" / "evidence"), folder / "model"


def test_trainer_under_xla_trains_the_model_that_it_trains_eager(
    xla_python: str, prepared: Path, tmp_path: Path
) -> None:
    """All arms evaluate on the host, since XLA keeps the accelerator to itself."""
    told = {"precision": "fp32", "evaluate_on": "host"}
    eager, _ = train(sys.executable, tmp_path / "eager", prepared, {**told, "compiler": "eager"})
    xla, model = train(xla_python, tmp_path / "xla", prepared, {**told, "compiler": "xla"})
    assert xla.evidence.compiler.ran
    assert xla.evidence.failure is None
    np.testing.assert_allclose(xla.steps.loss, eager.steps.loss, rtol=1e-3)
    np.testing.assert_allclose(xla.examples.scores, eager.examples.scores, atol=2e-3)
    for record in (eager, xla):
        recipe = record.evidence.recipe
        assert (recipe["evaluated_on"], recipe["evaluated_in"]) == ("host", "fp32")
    assert load_file(model / "model.safetensors")


def test_mixed_precision_under_xla_is_seen_and_evaluated_in_float32(
    xla_python: str, prepared: Path, tmp_path: Path
) -> None:
    told = {"precision": "bf16", "evaluate_on": "host", "compiler": "xla"}
    record, _ = train(xla_python, tmp_path, prepared, told)
    recipe = record.evidence.recipe
    assert (recipe["precision"], recipe["evaluated_in"]) == ("bf16", "fp32")
    assert record.evidence.metrics["accuracy"] > 0.9
