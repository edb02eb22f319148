"""What counts as a step of a script, whatever its loop, its models and its batches look like."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader

from compilegate.job import InputError, Job, NonFiniteLossError
from compilegate.job.script.steps import BatchSizes, watch_backward
from tests.job.script.jobs import AOT_EAGER, ROWS, job_of, recorded, trained, update


def batches(sizes: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.ones(size, 3), torch.zeros(size)) for size in sizes]


@pytest.fixture(autouse=True)
def _nothing_is_compiled_yet() -> None:
    """As in the process of a job of its own."""
    torch.compiler.reset()


@pytest.mark.slow
@given(
    count=st.integers(0, 9),
    last=st.integers(1, 8),
    accumulate=st.integers(1, 4),
    keep=st.booleans(),
)
def test_every_batch_but_a_smaller_last_one_is_part_of_one_step(
    count: int, last: int, accumulate: int, keep: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    job = job_of(tmp_path_factory.getbasetemp(), batch_size=8)
    sizes = [8] * count + [last]
    seen = []
    ragged = "keep" if keep else "drop"
    for data, _ in job.steps(batches(sizes), accumulate=accumulate, ragged=ragged):
        seen.append(len(data))
        job.loss(1.0)
    dropped = not keep and count > 0 and last < 8
    assert seen == (sizes[:-1] if dropped else sizes)
    assert job.steps_taken == -(-len(seen) // accumulate)


def steps_inside_of_iterations(job: Job) -> None:
    for _ in job.steps(batches([8, 8])):
        for _ in range(3):
            with job.step():
                job.loss(1.0)


def one_that_fails(job: Job) -> None:
    with pytest.raises(RuntimeError, match="out of luck"), job.step():
        raise RuntimeError("out of luck")
    assert job.step(lambda: torch.tensor(0.5)) == torch.tensor(0.5)


def loop(said: str, loader: Any = None) -> Callable[[Job], None]:
    """For each iteration: a loss is said (L) or not (.), the loop is left (!), or both (B)."""

    def run(job: Job) -> None:
        for _, say in zip(job.steps(loader), said, strict=False):
            if say in "LB":
                job.loss(1.0)
            if say in "B!":
                break

    return run


@pytest.mark.parametrize(
    ("loop", "count"),
    [
        (loop("LLL", batches([8, 5, 8])), 3),  # one that is shorter in the middle
        (loop("L!L", batches([8, 8, 8])), 1),
        (loop("BLL", batches([8, 8, 8])), 1),
        (loop("LLLLL!"), 5),
        (loop("LL.L", batches([8, 8, 8, 8])), 3),  # a batch that the script skips
        (steps_inside_of_iterations, 6),
        (one_that_fails, 1),
    ],
)
def test_steps_are_counted(loop: Callable[[Job], None], count: int, tmp_path: Path) -> None:
    job = job_of(tmp_path)
    loop(job)
    assert job.steps_taken == count


def test_the_loader_s_own_length_and_attributes_are_there(tmp_path: Path) -> None:
    class Loader(list[int]):
        dataset = "the data"

    steps = job_of(tmp_path).steps(Loader([1, 2, 3]))
    assert (len(steps), steps.dataset) == (3, "the data")


def test_a_loss_is_what_backward_is_called_on_summed_over_a_step(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    trained(job, nn.Linear(6, 1), ROWS.split(4), lambda m, b: m(b).mean() * 0 + 1.5, accumulate=2)
    assert job.losses() == [3.0, 3.0]


def test_a_scaled_loss_is_recorded_as_it_was(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    model = job.compile(nn.Linear(6, 1))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with job.step():
        scaler.scale(model(ROWS).mean() * 0 + 2.0).backward()
    assert job.losses() == [2.0]


def test_a_loss_that_is_not_finite_is_refused_before_the_update(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    model = job.compile(nn.Linear(6, 1))
    with pytest.raises(NonFiniteLossError) as refused, job.step():
        (model(ROWS).mean() * float("nan")).backward()
    assert refused.value.step == 0
    assert all(each.grad is None for each in model.parameters())


def test_a_step_without_a_loss_and_one_inside_another_are_refused(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    with pytest.raises(InputError, match="step 0 called backward"), job.step():
        pass
    with pytest.raises(InputError, match="inside of another"), job.step():
        job.begin_step()


def test_of_many_jobs_in_one_process_the_last_one_watches_the_losses(tmp_path: Path) -> None:
    """A notebook starts one after the other: watches around each other would be too deep."""
    for _ in range(sys.getrecursionlimit()):
        job = job_of(tmp_path)
        watch_backward(job._loop)
    with job.step():
        torch.ones((), requires_grad=True).backward()
    assert job.losses() == [1.0]


# Models and batches of many kinds.


@pytest.mark.slow
def test_models_that_share_their_code_do_not_share_a_limit_of_graphs(tmp_path: Path) -> None:
    job = job_of(tmp_path, **AOT_EAGER)
    for width in range(1, 11):  # dynamo's own limit is eight graphs for all of them together
        model = job.compile(nn.Linear(width, 1))
        with job.step():
            model(torch.ones(4, width)).sum().backward()
    assert recorded(job, model).evidence.failure is None


@pytest.mark.slow
def test_a_teacher_is_noted_and_left_as_it_is(tmp_path: Path) -> None:
    job = job_of(tmp_path, **AOT_EAGER)
    teacher, student = (job.compile(nn.Linear(6, 2)) for _ in range(2))
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    for rows in job.steps(ROWS.split(4)):
        with torch.no_grad():
            wanted = teacher(rows)
        update(optimizer, (student(rows) - wanted).square().mean())
    evidence = recorded(job, student).evidence
    assert any("called without gradients alone" in each for each in evidence.notes)
    assert evidence.parity.obstacle is None


@pytest.mark.slow
def test_every_function_has_its_own_first_steps_probed(tmp_path: Path) -> None:
    job = job_of(tmp_path, parity_steps=2, **AOT_EAGER)
    often, seldom = job.compile(nn.Linear(6, 6)), job.compile(nn.Tanh())
    for number, rows in enumerate(job.steps(ROWS.split(4) * 3)):
        if number == 8:
            late = job.compile(nn.Sequential(nn.Linear(6, 2)))
        output = often(rows)
        output = seldom(output) if number % 5 == 4 else output
        (late(output) if number >= 8 else output).square().mean().backward()
    record = recorded(job, often)
    names = {str(name).split(":")[0] for name in record.parity.tensors}
    assert names == {"Linear", "Tanh", "Sequential"}
    assert len(record.parity.compiled) == 2  # no call was kept beyond them


@dataclass(frozen=True)
class Rows:
    """A batch of a script's own class."""

    values: torch.Tensor
    name: str


class OfRows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, batch: Rows) -> Rows:
        return Rows(self.layer(batch.values), batch.name)


def test_batches_of_a_script_s_own_class_are_compared_and_counted(tmp_path: Path) -> None:
    job = job_of(tmp_path, **AOT_EAGER)
    rows = [Rows(rows, "some") for rows in ROWS.split(5)]
    model = trained(job, OfRows(), rows, lambda m, b: m(b).values.square().mean())
    evidence = recorded(job, model).evidence
    assert job.steps_taken == 3  # the last one has one row
    assert (evidence.parity.obstacle, evidence.parity.steps) == (None, 3)


@given(size=st.integers(2, 6), last=st.integers(1, 6), lengths=st.data())
def test_a_list_has_as_many_examples_as_items(size: int, last: int, lengths: st.DataObject) -> None:
    def batch(count: int) -> tuple[list[torch.Tensor], list[str]]:
        drawn = lengths.draw(st.lists(st.integers(7, 9), min_size=count, max_size=count))
        return [torch.zeros(each) for each in drawn], ["a label"] * count

    sizes = BatchSizes(declared=size)
    assert sizes.of(batch(size)) == size
    assert sizes.of(batch(last)) == last


def test_the_evidence_has_the_batch_size_that_the_loader_takes(tmp_path: Path) -> None:
    job = job_of(tmp_path, batch_size=4)
    rows: Any = ROWS
    model = trained(job, nn.Linear(6, 1), DataLoader(rows, batch_size=8))
    evidence = recorded(job, model).evidence
    assert evidence.recipe["batch_size"] == 8
    assert any("batch_size is 4" in each for each in evidence.notes)


def test_a_script_that_compiles_by_itself_is_noted(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    doubled = torch.compile(lambda rows: rows * 2, backend="aot_eager")
    model = trained(job, nn.Linear(6, 1), [ROWS], lambda m, b: doubled(m(b)).sum())
    assert any("compiles by itself" in each for each in recorded(job, model).evidence.notes)
