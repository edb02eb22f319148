"""What slows a job's steps is in its evidence, with lines, and looking for it stops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from compilegate.job.evidence import Slowdown
from compilegate.job.evidence.record import RULES
from tests.job.script.jobs import job_of, recorded, trained

Batches = Iterable[torch.Tensor]
Body = Callable[[Any, Any], torch.Tensor]


class Branching(torch.nn.Linear):
    """Leaves its graph where it looks at a value."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = super().forward(inputs)
        if hidden.abs().max() > 1e6:
            hidden = hidden / 2
        return hidden.relu()


def plain(model: Any, batch: Any) -> torch.Tensor:
    return model(batch).pow(2).mean()


def asking(every: int = 1) -> Body:
    steps = itertools.count()

    def body(model: Any, batch: Any) -> torch.Tensor:
        loss = plain(model, batch)
        return loss * 2 if next(steps) % every == 0 and loss.item() < 0 else loss

    return body


def same(count: int = 40) -> list[torch.Tensor]:
    return [torch.randn(4, 8) for _ in range(count)]


def slow() -> Iterator[torch.Tensor]:
    for batch in same(30):
        sum(range(300_000))  # takes its time, however busy the machine is
        yield batch


def slowdowns_of(
    folder: Path, model: torch.nn.Module, batches: Batches, body: Body = plain, **config: Any
) -> dict[str, Slowdown]:
    job = job_of(folder, **{"parity_steps": 0, "speed_probe_seconds": 0, **config})
    compiled = trained(job, model, batches, body, ragged="keep")
    return {each.kind: each for each in recorded(job, compiled).evidence.hindrances}


def test_steps_that_need_nothing_and_a_smaller_last_batch_are_no_slowdown(tmp_path: Path) -> None:
    epochs = [*same(10), torch.randn(3, 8)] * 3
    assert not slowdowns_of(tmp_path, torch.nn.Linear(8, 1), epochs).keys() - {"loader"}


def test_a_question_in_each_step_is_recorded_with_its_line_and_a_rare_one_is_not(
    tmp_path: Path,
) -> None:
    found = slowdowns_of(tmp_path, torch.nn.Linear(8, 1), same(), asking())["synchronisation"]
    line = asking.__code__.co_firstlineno + 5
    assert (found.count, found.rule) == (1, RULES["synchronisation"])
    assert [each.rpartition(":")[2] for each in found.where] == [str(line)]
    seldom = slowdowns_of(tmp_path, torch.nn.Linear(8, 1), same(), asking(10))
    assert "synchronisation" not in seldom


@pytest.mark.parametrize("steps", [3, 13, 40])
def test_torch_is_as_it_was_afterwards(tmp_path: Path, steps: int) -> None:
    before = {name: vars(torch.Tensor).get(name) for name in ("item", "tolist", "__bool__")}
    slowdowns_of(tmp_path, torch.nn.Linear(8, 1), same(steps), asking())
    assert {name: vars(torch.Tensor).get(name) for name in before} == before


def test_shapes_that_keep_changing_are_counted(tmp_path: Path) -> None:
    growing = [torch.randn(4, 2 + step, 8) for step in range(20)]
    found = slowdowns_of(tmp_path, torch.nn.Linear(8, 1), growing)["shapes"]
    assert (found.count, found.rule) == (20, RULES["shapes"])


@pytest.mark.slow
def test_a_slow_loader_is_recorded_with_its_share(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    evidence = recorded(job, trained(job, torch.nn.Linear(8, 1), slow())).evidence
    (found,) = (each for each in evidence.hindrances if each.kind == "loader")
    assert found.share > 0.3


@pytest.mark.slow
def test_breaks_and_recompilations_are_recorded_with_line_and_reason(tmp_path: Path) -> None:
    torch.compiler.reset()
    options = {"backend": "aot_eager", "dynamic_shapes": False}
    late = [*same(20), *(torch.randn(6, 8) for _ in range(10))]
    found = slowdowns_of(tmp_path, Branching(8, 1), late, compiler="torch-compile", options=options)
    line = Branching.forward.__code__.co_firstlineno + 2
    assert [each.rpartition(":")[2] for each in found["breaks"].where] == [str(line)]
    assert (found["breaks"].reason or "").startswith("Data-dependent branching")
    assert "expected 4, actual 6" in (found["recompilations"].reason or "")
