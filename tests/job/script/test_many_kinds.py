"""Training scripts of many kinds: teachers, late models, skipped batches, batches of any form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader

from compilegate.gate.evidence import read_evidence
from compilegate.job import InputError, Job, Told
from compilegate.job.evidence import EvidenceRecord
from compilegate.job.names import EVIDENCE_FOLDER
from compilegate.job.script.steps import BatchSizes

ROWS = torch.linspace(-1, 1, 96).reshape(16, 6)


def job_of(folder: Path, **told: Any) -> Job:
    """A job of a candidate, whose backend is quick to compile."""
    settings: dict[str, Any] = {
        "compiler": "torch-compile",
        "options": {"backend": "aot_eager"},
        "batch_size": 4,
        **told,
    }
    return Job(
        Told(job="a-job", arm="tried", model=folder / "model", output=folder / "out", **settings)
    )


def recorded(job: Job, model: Any) -> EvidenceRecord:
    job.metrics(accuracy=0.5)
    job.save(model)
    job.finish()
    return read_evidence(job.told.output / EVIDENCE_FOLDER)


def update(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@pytest.fixture(autouse=True)
def nothing_is_compiled_yet() -> None:
    """As in the process of a job of its own."""
    torch.compiler.reset()


@pytest.mark.slow
def test_models_that_share_their_code_do_not_share_a_limit_of_graphs(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    for width in range(1, 11):  # dynamo's own limit is eight graphs for all of them together
        model = job.compile(nn.Linear(width, 1))
        with job.step():
            model(torch.ones(4, width)).sum().backward()
    assert recorded(job, model).evidence.failure is None


@pytest.mark.slow
def test_a_teacher_is_noted_and_left_as_it_is(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    teacher, student = (job.compile(nn.Linear(6, 2)) for _ in range(2))
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    for rows in job.steps(ROWS.split(4)):
        with torch.no_grad():
            wanted = teacher(rows)
        update(optimizer, (student(rows) - wanted).square().mean())
    evidence = recorded(job, student).evidence
    assert any("Linear was called without gradients alone" in each for each in evidence.notes)
    assert evidence.parity is not None
    assert evidence.parity.obstacle is None


def test_a_model_that_is_never_called_in_a_step_is_refused(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    idle, model = job.compile(nn.Linear(6, 2)), job.compile(nn.Linear(6, 2))
    for rows in job.steps(ROWS.split(4)):
        model(rows).square().mean().backward()
    idle(ROWS)
    with pytest.raises(InputError, match="never called within a training step"):
        recorded(job, model)


@pytest.mark.slow
def test_every_function_has_its_own_first_steps_probed(tmp_path: Path) -> None:
    job = job_of(tmp_path, parity_steps=2)
    often, seldom = job.compile(nn.Linear(6, 6)), job.compile(nn.Tanh())
    for number, rows in enumerate(job.steps(ROWS.split(4) * 3)):
        if number == 8:
            late = job.compile(nn.Sequential(nn.Linear(6, 2)))
        output = often(rows)
        output = seldom(output) if number % 5 == 4 else output
        (late(output) if number >= 8 else output).square().mean().backward()
    record = recorded(job, often)
    assert record.parity is not None
    names = {str(name).split(":")[0] for name in record.parity.tensors}
    assert names == {"Linear", "Tanh", "Sequential"}
    assert len(record.parity.compiled) == 2  # no call was kept beyond them


def test_a_batch_that_the_script_skips_is_no_step(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    model = job.compile(nn.Linear(6, 1))
    for number, rows in enumerate(job.steps(ROWS.split(4))):
        if number == 2:
            continue
        model(rows).sum().backward()
    evidence = recorded(job, model).evidence
    assert job.steps_taken == 3
    assert any("whose batch the script skips" in each for each in evidence.notes)


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
    job = job_of(tmp_path)
    model = job.compile(OfRows())
    for batch in job.steps([Rows(rows, "some") for rows in ROWS.split(5)]):
        model(batch).values.square().mean().backward()
    evidence = recorded(job, model).evidence
    assert job.steps_taken == 3  # the last one has one row
    assert evidence.parity is not None
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
    model = job.compile(nn.Linear(6, 1))
    rows: Any = ROWS
    for batch in job.steps(DataLoader(rows, batch_size=8)):
        model(batch).sum().backward()
    evidence = recorded(job, model).evidence
    assert evidence.recipe["batch_size"] == 8
    assert any("told batch_size = 4, and the loader takes 8" in each for each in evidence.notes)


def test_a_model_that_torch_leaves_to_eager_trains_and_counts_as_not_compiled(
    tmp_path: Path,
) -> None:
    job = job_of(tmp_path)
    model = job.compile(nn.Sequential(nn.GRU(6, 2)))
    with job.step():
        model(ROWS)[0].sum().backward()
    evidence = recorded(job, model).evidence
    assert (evidence.compiler.ran, evidence.compiler.graphs) == (False, 0)
    assert any("ran compiled" in each and "Sequential: " in each for each in evidence.notes)


def test_a_script_that_compiles_by_itself_is_told(tmp_path: Path) -> None:
    job = job_of(tmp_path, compiler="eager", options={})
    model = job.compile(nn.Linear(6, 1))
    doubled = torch.compile(lambda rows: rows * 2, backend="aot_eager")
    with job.step():
        doubled(model(ROWS)).sum().backward()
    assert any("compiles by itself" in each for each in recorded(job, model).evidence.notes)


def test_weights_that_safetensors_does_not_know_are_refused_in_a_sentence(tmp_path: Path) -> None:
    job = job_of(tmp_path, compiler="eager", options={})
    model = nn.ParameterDict({"weight": torch.zeros(2, dtype=torch.complex128)})
    with job.step():
        job.loss(1.0)
    with pytest.raises(InputError, match=r"complex128.*pass a function"):
        job.save(model)
