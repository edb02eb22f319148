"""A job records the precision that its steps had, and says at once where the arm has another."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.job.script.jobs import AOT_EAGER, ROWS, job_of, recorded, trained

BF16 = torch.bfloat16


def trained_in(folder: Path, how: str, **config: Any) -> Any:
    """`how` the script has its precision: autocast "around" the call, "within" what it compiles,
    "parameters" of 16 bits, what "the job" says, or "plain" fp32."""
    job = job_of(folder, arm="larger", speed_probe_seconds=0, **config)
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
@pytest.mark.parametrize(
    ("how", "config", "precision", "says"),
    [
        ("around", {}, "bf16", ["larger", 'precision = "bf16"', "remove torch.autocast"]),
        ("around", {"alone": True}, "bf16", ['precision = "bf16"']),
        ("plain", {"precision": "bf16"}, "fp32", ["larger", "in fp32", "declares bf16"]),
        ("the job", {"precision": "bf16"}, "bf16", []),
        ("plain", {}, "fp32", []),
        ("within", {}, "bf16", None),
        ("parameters", {}, "bf16", None),
        *(
            (how, AOT_EAGER, "fp32" if how == "plain" else "bf16", None)
            for how in ("around", "within", "parameters", "plain")
        ),
    ],
)
def test_the_evidence_has_the_precision_of_the_steps_and_a_note_where_the_arm_has_another(
    how: str, config: dict[str, Any], precision: str, says: list[str] | None, tmp_path: Path
) -> None:
    """Compiled code shows nothing of it; the probe's eager calls do."""
    evidence = trained_in(tmp_path, how, **config)
    assert evidence.recipe["precision"] == precision
    around = how in ("around", "the job")
    assert evidence.recipe.get("autocast") == ("bf16" if around else None)
    if config is AOT_EAGER:
        assert (evidence.parity.precision, evidence.parity.obstacle) == (precision, None)
    notes = [each for each in evidence.notes if "this script trains" in each]
    if says is not None:
        assert len(notes) == bool(says)
        assert all(words in notes[0] for words in says)
