"""A job records the precision that its steps had, and says at once where the arm has another."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from compilegate.job.evidence import Evidence
from tests.job.script.jobs import AOT_EAGER, ROWS, job_of, recorded, trained

BF16 = torch.bfloat16


def trained_in(folder: Path, how: str, **told: Any) -> Evidence:
    """`how` the script has its precision: autocast "around" the call, "within" what it compiles,
    "parameters" of 16 bits, what "the job" says, or "plain" fp32."""
    job = job_of(folder, arm="larger", speed_probe_seconds=0, **told)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    rows = ROWS
    if how == "parameters":
        network, rows = network.to(BF16), rows.to(BF16)

    def within(batch: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=BF16):
            return network(batch).float()

    def loss_of(model: Any, batch: torch.Tensor) -> torch.Tensor:
        around: Any = contextlib.nullcontext()
        if how == "around":
            around = torch.autocast("cpu", dtype=BF16)
        elif how == "the job":
            around = job.autocast()
        with around:
            output = model(batch)
        return output.float().square().mean()

    if how == "within":
        trained(job, within, rows.split(4), loss_of, holder=network)
    else:
        trained(job, network, rows.split(4), loss_of)
    return recorded(job, network).evidence


@pytest.mark.slow
@pytest.mark.parametrize("told", [{}, AOT_EAGER])
@pytest.mark.parametrize(
    ("how", "precision"),
    [("around", "bf16"), ("within", "bf16"), ("parameters", "bf16"), ("plain", "fp32")],
)
def test_the_evidence_has_the_precision_of_the_steps(
    how: str, precision: str, told: dict[str, Any], tmp_path: Path
) -> None:
    """Compiled code shows nothing of it; the probe's eager calls do."""
    evidence = trained_in(tmp_path, how, **told)
    assert evidence.recipe["precision"] == precision
    assert evidence.recipe.get("autocast") == ("bf16" if how == "around" else None)
    if told:
        assert evidence.parity is not None
        assert (evidence.parity.precision, evidence.parity.obstacle) == (precision, None)


@pytest.mark.parametrize(
    ("how", "told", "says"),
    [
        ("around", {}, ["larger", 'precision = "bf16"', "remove torch.autocast"]),
        ("around", {"alone": True}, ['precision = "bf16"']),
        ("plain", {"precision": "bf16"}, ["larger", "in fp32", "declares bf16"]),
        ("the job", {"precision": "bf16"}, []),
        ("plain", {}, []),
    ],
)
def test_a_precision_that_the_arm_does_not_declare_is_noted_with_what_to_change(
    how: str, told: dict[str, Any], says: list[str], tmp_path: Path
) -> None:
    notes = [
        each for each in trained_in(tmp_path, how, **told).notes if "this script trains" in each
    ]
    assert len(notes) == bool(says)
    assert all(words in notes[0] for words in says)
