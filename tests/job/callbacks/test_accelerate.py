"""Loops of Hugging Face's Accelerate need no callback."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.numpy import load_file

from compilegate.gate.evidence import read_evidence
from tests.job.callbacks.accelerate_training import train
from tests.job.callbacks.fresh import in_job
from tests.job.callbacks.models import COMPILED

pytestmark = pytest.mark.slow


@pytest.mark.long
@pytest.mark.parametrize(("when", "precision"), [("before", "bf16"), ("after", "bf16")])
def test_a_model_is_compiled_before_it_is_prepared_or_after(
    when: str, precision: str, tmp_path: Path
) -> None:
    in_job(
        tmp_path,
        train,
        told={**COMPILED, "precision": precision},
        when=when,
        mixed_precision=precision,
    )
    found = read_evidence(tmp_path / "evidence")
    compiler, parity = found.evidence.compiler, found.evidence.parity
    assert (compiler.ran, compiler.graphs, compiler.recompilations) == (True, 1, 0)
    # Autocast is around what was compiled, or the probe would compare in another precision.
    assert (parity.precision, parity.obstacle) == (precision, None)
    assert len(found.steps.loss) == 3 * 3  # two batches of four a step
    assert set(load_file(tmp_path / "model" / "model.safetensors")) == {
        *("0.weight", "0.bias", "2.weight", "2.bias"),
    }
