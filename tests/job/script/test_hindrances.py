"""What slows a job's steps is in its evidence, with lines, and looking for it stops."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch

from compilegate.gate.evidence import read_evidence
from compilegate.job import Job, Told
from compilegate.job.evidence import Hindrance
from compilegate.job.evidence.hindrances import (
    BREAKS,
    LOADER,
    RECOMPILATIONS,
    RULES,
    SHAPES,
    SYNCHRONISATION,
)

Batches = Iterable[torch.Tensor]
Body = Callable[[torch.nn.Module, torch.Tensor], torch.Tensor]


class Branching(torch.nn.Module):
    """Leaves its graph where it looks at a value."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(inputs))
        if hidden.abs().max() > 1e6:
            hidden = hidden / 2
        return self.second(hidden)


def plain(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return model(batch).pow(2).mean()


def asking(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    loss = plain(model, batch)
    return loss * (1.0 if loss.item() > 0 else 2.0)


def same(count: int = 40) -> Batches:
    return [torch.randn(4, 8) for _ in range(count)]


def hindrances_of(
    folder: Path, model: torch.nn.Module, batches: Batches, body: Body = plain, **told: object
) -> dict[str, Hindrance]:
    """By kind, after the job has trained and left its evidence."""
    told = {"parity_steps": 0, "speed_probe_seconds": 0, **told}
    job = Job(
        dataclasses.replace(Told("job", "arm", folder / "model", folder, batch_size=4), **told)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    compiled = job.compile(model)
    for batch in job.steps(batches, ragged="keep"):
        optimizer.zero_grad()
        body(compiled, batch).backward()
        optimizer.step()
    job.metrics(accuracy=0.5)
    job.save(model)
    job.finish()
    evidence = read_evidence(folder / "evidence").evidence
    return {each.kind: each for each in evidence.hindrances}


def test_steps_that_need_nothing_are_said_to_need_nothing(tmp_path: Path) -> None:
    assert not hindrances_of(tmp_path, torch.nn.Linear(8, 1), same()).keys() - {LOADER}


def test_a_question_in_each_step_is_told_with_its_line(tmp_path: Path) -> None:
    found = hindrances_of(tmp_path, torch.nn.Linear(8, 1), same(), asking)[SYNCHRONISATION]
    first = asking.__code__.co_firstlineno
    assert found.count == 1
    assert [each.rpartition(":")[2] for each in found.where] == [str(first + 2)]
    assert found.rule == RULES[SYNCHRONISATION]


def test_a_question_now_and_then_is_none(tmp_path: Path) -> None:
    steps = iter(range(100))

    def seldom(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
        loss = plain(model, batch)
        if next(steps) % 10 == 0:
            loss.item()
        return loss

    found = hindrances_of(tmp_path, torch.nn.Linear(8, 1), same(), seldom)
    assert SYNCHRONISATION not in found


@pytest.mark.parametrize("steps", [3, 13, 40])
def test_torch_is_as_it_was_afterwards(tmp_path: Path, steps: int) -> None:
    before = {name: vars(torch.Tensor).get(name) for name in ("item", "tolist", "__bool__")}
    hindrances_of(tmp_path, torch.nn.Linear(8, 1), same(steps), asking)
    assert {name: vars(torch.Tensor).get(name) for name in before} == before


def test_shapes_that_keep_changing_are_counted(tmp_path: Path) -> None:
    growing = [torch.randn(4, 2 + step, 8) for step in range(20)]
    found = hindrances_of(tmp_path, torch.nn.Linear(8, 1), growing)[SHAPES]
    assert (found.count, found.rule) == (20, RULES[SHAPES])


def test_a_last_batch_that_is_smaller_is_no_change(tmp_path: Path) -> None:
    epoch = [*same(10), torch.randn(3, 8)]
    assert SHAPES not in hindrances_of(tmp_path, torch.nn.Linear(8, 1), epoch * 3)


@pytest.mark.slow
def test_a_slow_loader_is_told_with_its_share(tmp_path: Path) -> None:
    def slow() -> Batches:
        for batch in same(30):
            time.sleep(0.02)  # what is planted
            yield batch

    found = hindrances_of(tmp_path, torch.nn.Linear(8, 1), slow())[LOADER]
    assert found.share is not None
    assert found.share > 0.3


@pytest.mark.slow
def test_breaks_and_recompilations_are_told_with_line_and_reason(tmp_path: Path) -> None:
    torch.compiler.reset()
    options = {"backend": "aot_eager", "dynamic_shapes": False}
    late = [*same(20), *(torch.randn(6, 8) for _ in range(10))]
    found = hindrances_of(tmp_path, Branching(), late, compiler="torch-compile", options=options)
    line = Branching.forward.__code__.co_firstlineno + 2
    assert [each.rpartition(":")[2] for each in found[BREAKS].where] == [str(line)]
    assert found[BREAKS].reason is not None
    assert found[BREAKS].reason.startswith("Data-dependent branching")
    again = found[RECOMPILATIONS]
    assert again.reason is not None
    assert "expected 4, actual 6" in again.reason
