"""Probes a small model against itself, and prints what came of it as JSON.

Run by the interpreter of the oldest training container, whose torch has no compiler.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification

from compilegate.job.compilers import load_compiler
from compilegate.job.machine.numerics import autocast
from compilegate.job.probes.capture import Compiled, await_cotangents
from compilegate.job.probes.parity import probe_parity
from training.data.batches import BatchSource, batches_of_run
from training.data.prepared import PreparedSplit
from training.hyperparameters import Hyperparameters
from training.schedule import run_length

DOCUMENTS, SEQUENCE_LENGTH = 16, 8


def main() -> None:
    """Probe in both precisions; the last line is JSON."""
    print(json.dumps({precision: found(precision) for precision in ("fp32", "bf16")}))


def found(precision: str) -> dict[str, Any]:
    recipe = Hyperparameters(batch_size=8, epochs=1, precision=precision)
    config = BertConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=SEQUENCE_LENGTH,
        problem_type="single_label_classification",
    )
    model = BertForSequenceClassification(config)
    compiled = Compiled("model", model, eager=model.forward, compiled=model.forward)
    length = run_length(recipe, DOCUMENTS)
    for step, batch in enumerate(batches_of_run(source(), recipe, length, 1)):
        with autocast(precision, torch.device("cpu")):
            call = compiled.keep_call(step, (), batch)
            output = model(**batch)
        await_cotangents(call, output)
        output.loss.backward()
    with tempfile.TemporaryDirectory() as folder:
        probed = probe_parity([compiled], compiler=load_compiler("eager"), folder=Path(folder))
    record, errors = probed.record, probed.errors
    largest = None if errors is None else float(errors.eager.max())
    return {"obstacle": record.obstacle, "steps": record.steps, "largest_error": largest}


def source() -> BatchSource:
    draw = np.random.default_rng(0)
    split = PreparedSplit(
        input_ids=draw.integers(1, 20, (DOCUMENTS, SEQUENCE_LENGTH)).astype(np.int32),
        attention_mask=np.ones((DOCUMENTS, SEQUENCE_LENGTH), np.int8),
        labels=draw.integers(0, 2, DOCUMENTS),
        ids=np.arange(DOCUMENTS).astype(str),
    )
    return BatchSource(split, torch.device("cpu"))


if __name__ == "__main__":
    main()
