"""A job records the precision that its steps had, and says at once where the arm has another."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from compilegate.gate.evidence import read_evidence
from compilegate.job.evidence import Evidence
from compilegate.job.names import EVIDENCE_FOLDER
from compilegate.job.script.job import Job
from compilegate.job.script.told import Told

BF16 = torch.bfloat16
COMPILED: dict[str, Any] = {"compiler": "torch-compile", "options": {"backend": "aot_eager"}}
WRONG = (
    "compilegate: this script trains under bf16 autocast; the workload declares fp32: "
    'set precision = "bf16" in [arms.larger], or remove torch.autocast.'
)


def trained(folder: Path, how: str, **told: Any) -> Evidence:
    """`how` the script has its precision: autocast "around" the call, "within" what it compiles,
    "parameters" of 16 bits, what "the job" says, or "plain" fp32."""
    job = Job(
        Told(
            job="job",
            arm="larger",
            model=folder / "model",
            output=folder / "output",
            batch_size=8,
            speed_probe_seconds=0,
            **told,
        )
    )
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    rows, labels = torch.randn(96, 4), torch.randint(3, (96,))
    if how == "parameters":
        network, rows = network.to(BF16), rows.to(BF16)

    def within(batch: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=BF16):
            return network(batch).float()

    model = job.compile(within, network) if how == "within" else job.compile(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for batch in job.steps(torch.arange(96).split(8)):
        around: Any = contextlib.nullcontext()
        if how == "around":
            around = torch.autocast("cpu", dtype=BF16)
        elif how == "the job":
            around = job.autocast()
        with around:
            loss = nn.functional.cross_entropy(model(rows[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        job.examples(ids=job.positions(8), labels=labels[:8], logits=network(rows[:8]).float())
    job.save(network)
    job.finish()
    return read_evidence(folder / "output" / EVIDENCE_FOLDER).evidence


@pytest.mark.slow
@pytest.mark.parametrize("told", [{}, COMPILED])
@pytest.mark.parametrize(
    ("how", "precision"),
    [("around", "bf16"), ("within", "bf16"), ("parameters", "bf16"), ("plain", "fp32")],
)
def test_the_evidence_has_the_precision_of_the_steps(
    how: str, precision: str, told: dict[str, Any], tmp_path: Path
) -> None:
    """Compiled code shows nothing of it; the probe's eager calls do."""
    evidence = trained(tmp_path, how, **told)
    assert evidence.recipe["precision"] == precision
    assert evidence.recipe.get("autocast") == ("bf16" if how == "around" else None)
    if told:
        assert evidence.parity is not None
        assert (evidence.parity.precision, evidence.parity.obstacle) == (precision, None)


def test_a_script_under_autocast_whose_arm_says_nothing_is_told_which_line_to_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = trained(tmp_path, "around")
    assert capsys.readouterr().out.splitlines().count(WRONG) == 1
    assert WRONG.partition(" ")[2] in evidence.notes


def test_by_hand_there_is_no_arm_yet_which_is_to_say_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path, "around", alone=True)
    lines = [each for each in capsys.readouterr().out.splitlines() if "bf16" in each]
    assert len(lines) == 1
    assert 'precision = "bf16"' in lines[0]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "precision"), [("the job", "bf16"), ("plain", None)])
def test_what_trains_as_declared_is_not_warned(
    how: str, precision: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = trained(tmp_path, how, precision=precision)
    assert evidence.recipe["precision"] == (precision or "fp32")
    assert "this script trains" not in capsys.readouterr().out


def test_a_declared_precision_that_the_script_does_not_train_in_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trained(tmp_path, "plain", precision="bf16").recipe["precision"] == "fp32"
    told = "this script trains in fp32; the workload declares bf16: set precision"
    assert told in capsys.readouterr().out
