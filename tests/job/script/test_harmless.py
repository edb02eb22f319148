"""Whatever fails in the job, the training's numbers are those of the plain script, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from compilegate.job import Baseline, InputError, Job
from compilegate.job.endings import NOT_MEASURED
from compilegate.job.probes.capture import Compiled
from compilegate.job.script import compiled
from compilegate.job.script.compiled import Compilation, Dispatch
from compilegate.job.script.example_rows import ExampleRows
from compilegate.job.script.probes import Probes
from compilegate.job.script.steps import BatchSizes, Clock, Losses
from compilegate.job.slowdowns import GraphLog
from tests.job.script.jobs import AOT_EAGER, ROWS, job_of, left, network, recorded, update

POINTS = {
    Clock: "begin begin_wait end_wait pause resume end",
    Losses: "add end_step",
    Compilation: "ready require_fresh_gradients",
    Job: "clock graphs_compiled _note_precision",
    Dispatch: "_is_evaluated _has_room end_capture",
    compiled: "batch_size_of is_sharded observed_precision _settle await_cotangents _tensors_in",
    Compiled: "capture_call",
    BatchSizes: "of",
    ExampleRows: "add",
}
ALL = [(owner, name) for owner, listed in POINTS.items() for name in listed.split()]
"""Without any of these a record would be wrong: the job leaves none that can be judged."""
BESIDE = [
    *((Probes, "compare_speed"), (Compiled, "with_calls_on_device")),
    *((GraphLog, "listen"), (Compilation, "_loaded_cache")),
]
"""Without these it lacks a part."""


def train(model: Any, batches: Any) -> list[float]:
    """An ordinary loop, with an evaluation in it that is part of a step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for number, rows in enumerate(batches):
        loss = model(rows).square().mean()
        update(optimizer, loss)
        if number % 4 == 1:
            model.eval()
            with torch.no_grad():
                seen.append(float(model(ROWS).sum()))
            model.train()
        seen.append(float(loss.detach()))
    return [*seen, *(float(each.detach().double().sum()) for each in model.parameters())]


def batches() -> list[torch.Tensor]:
    return [*ROWS.split(4)] * 3


@pytest.fixture(scope="module")
def plain() -> list[float]:
    return train(network(), batches())


def raising(*_: Any, **__: Any) -> None:
    raise RuntimeError("planted")


def observed(folder: Path, **config: Any) -> tuple[Job, list[float], nn.Module]:
    torch.compiler.reset()
    usual = {**AOT_EAGER, "baseline": Baseline(), "speed_probe_seconds": 0.2}
    job = job_of(folder, **{**usual, **config})
    model = job.compile(network())
    numbers = train(model, job.steps(batches()))
    job.examples(ids=job.positions(2), labels=[0, 1], scores=[[0.5, 0.5]] * 2)
    return job, numbers, model


@pytest.mark.parametrize(("owner", "name"), ALL, ids=[name for _, name in ALL])
def test_a_hook_that_fails_ends_the_measurement_and_not_the_training(
    owner: Any, name: str, plain: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, raising)
    job, numbers, model = observed(tmp_path)
    assert numbers == plain
    assert job.failures.broken is not None
    evidence = recorded(job, model).evidence
    assert evidence.ending == NOT_MEASURED.name
    assert "planted" in (evidence.failure or "")
    assert (tmp_path / "model" / "model.safetensors").is_file()


@pytest.mark.parametrize(("owner", "name"), BESIDE, ids=[name for _, name in BESIDE])
def test_what_fails_beside_the_steps_is_noted(
    owner: Any, name: str, plain: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, raising)
    job, numbers, model = observed(tmp_path)
    assert numbers == plain
    evidence = recorded(job, model).evidence
    assert evidence.failure is None
    obstacle = "" if evidence.parity is None else evidence.parity.obstacle or ""
    assert any("planted" in each for each in (*evidence.notes, obstacle))


def test_nothing_fails_where_nothing_is_planted(plain: list[float], tmp_path: Path) -> None:
    job, numbers, model = observed(tmp_path)
    assert numbers == plain
    evidence = recorded(job, model).evidence
    assert (evidence.failure, evidence.parity.obstacle) == (None, None)


def test_a_baseline_that_was_not_measured_fails_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Clock, "end", raising)
    job, _, model = observed(tmp_path, compiler="eager", options={}, baseline=None)
    with pytest.raises(InputError, match="planted"):
        recorded(job, model)
    assert not (tmp_path / "output").exists()


# A candidate whose arithmetic is wrong.

WRONG = {
    "compiler": "torch-compile",
    "options": {"backend": "benchmarks.miscompilers.unmasked_relu_gradient"},
}


def test_a_wrong_candidate_ends_after_the_probe_with_its_evidence(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        observed(tmp_path, **WRONG)
    assert ended.value.code == 0
    record = left(tmp_path / "output")
    assert record.evidence.ending == "wrong arithmetic"
    assert "ended after step 4" in (record.evidence.failure or "")
    assert record.parity.compiled.shape[0] == 4
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("config", [{"on_wrong": "go-on"}, {"alone": True}])
def test_a_wrong_candidate_goes_on_where_that_is_configured_and_by_hand(
    config: dict[str, Any], tmp_path: Path
) -> None:
    job, _, model = observed(tmp_path, **WRONG, **config)
    evidence = recorded(job, model).evidence
    assert evidence.recipe["steps"] == 12
    assert any("the training goes on" in each for each in evidence.notes)
