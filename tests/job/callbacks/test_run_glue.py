"""docs/examples/run_glue.py as a workload's program: started by the launcher, in two processes."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from compilegate.gate.evidence import read_evidence
from tests.job.callbacks.fresh import environment
from tests.job.callbacks.models import COMPILED

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).parents[3]
TOLD = {"batch_size": 4, "learning_rate": 0.01, "precision": "fp32", "seed": 5}
HYPERPARAMETERS = {
    "compiler": "torch-compile",
    **TOLD,
    **{"max_seq_length": 6, "num_train_epochs": 1, "num_hidden_layers": 1, "hidden_size": 8},
    **{"report_to": "none", "do_train": "true", "do_eval": "true", "use_cpu": "true"},
}
ARGUMENTS = {
    "batch_size": "per_device_train_batch_size",
    "learning_rate": "learning_rate",
    "seed": "seed",
    "precision": [],
}


def write_texts(path: Path, rows: int) -> list[str]:
    chance = random.Random(rows)
    labels = [chance.randrange(3) for _ in range(rows)]
    texts = [" ".join(f"{label}w{chance.randrange(5)}" for _ in range(6)) for label in labels]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("sentence", "label"), *zip(texts, labels, strict=True)])
    return texts


def test_two_processes_leave_one_evidence_and_a_model_with_its_tokenizer(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_texts(data / "train.csv", 26)
    texts = write_texts(data / "validation.csv", 9)
    launcher = ROOT / "compilegate" / "job" / "launch" / "own_script.py"
    words = [word for name, value in HYPERPARAMETERS.items() for word in (f"--{name}", str(value))]
    subprocess.run(
        [sys.executable, launcher, *words, "--output_dir", str(tmp_path / "trained")],
        env=environment(
            tmp_path,
            {**COMPILED, **TOLD},
            COMPILEGATE_SCRIPT=str(ROOT / "docs" / "examples" / "run_glue.py"),
            COMPILEGATE_PROCESSES="2",
            COMPILEGATE_ARGUMENTS=json.dumps(ARGUMENTS),
            COMPILEGATE_ARM="compiled",
            TRAINING_JOB_NAME="job-1",
            SM_CHANNEL_DATA=str(data),
        ),
        check=True,
    )
    found = read_evidence(tmp_path / "evidence")
    evidence, compiler = found.evidence, found.evidence.compiler
    assert (compiler.ran, compiler.recompilations, compiler.graph_breaks) == (True, 0, 0)
    assert (evidence.parity.obstacle, evidence.recipe["world_size"]) == (None, 2)
    assert len(found.steps.loss) == 3  # 26 texts are six whole batches
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    batch = tokenizer(
        texts, padding="max_length", max_length=6, truncation=True, return_tensors="pt"
    )
    with torch.no_grad():
        scores = model(**batch).logits.softmax(dim=1).double()
    torch.testing.assert_close(torch.from_numpy(found.examples.scores), scores, atol=1e-6, rtol=0)
