"""Loops of Hugging Face's Accelerate need no callback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from safetensors.numpy import load_file
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from compilegate import job
from compilegate.gate.evidence import read_evidence
from tests.job.callbacks.fresh import in_job
from tests.job.callbacks.models import COMPILED

pytestmark = [pytest.mark.slow, pytest.mark.long]


def train(when: str) -> None:
    """A loop in the style of Accelerate's examples. `when` the model is compiled: before `prepare`,
    or after."""
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2)
    x = torch.randn(24, 5)
    data = TensorDataset(x, x[:, :3].argmax(dim=1))
    model: Any = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    if when == "before":
        model = job.compile(model)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if when == "after":
        model = job.compile(model)
    for _ in range(3):
        model.train()
        for inputs, targets in job.steps(loader, accumulate=2):
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(inputs), targets)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        logits = model(x)
    job.examples(ids=job.positions(len(x)), logits=logits, labels=data.tensors[1])
    job.save(accelerator.unwrap_model(model, keep_fp32_wrapper=False))
    with torch.no_grad():  # what was unwrapped can still be called
        accelerator.unwrap_model(model)(x)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_model_is_compiled_before_it_is_prepared_or_after(when: str, tmp_path: Path) -> None:
    in_job(tmp_path, train, config={**COMPILED, "precision": "bf16"}, when=when)
    found = read_evidence(tmp_path / "evidence")
    compiler, parity = found.evidence.compiler, found.evidence.parity
    assert (compiler.ran, compiler.graphs, compiler.recompilations) == (True, 1, 0)
    # Autocast is around what was compiled, or the probe would compare in another precision.
    assert (parity.precision, parity.obstacle) == ("bf16", None)
    assert len(found.steps.loss) == 3 * 3  # two batches of four a step
    assert set(load_file(tmp_path / "model" / "model.safetensors")) == {
        *("0.weight", "0.bias", "2.weight", "2.bias")
    }
