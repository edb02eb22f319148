"""What counts as a step of a script, whatever its loop looks like."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compilegate.gate.evidence import read_evidence
from compilegate.job import InputError, Job, NonFiniteLossError, Told
from compilegate.job.evidence import EvidenceRecord
from compilegate.job.names import EVIDENCE_FOLDER
from compilegate.job.script.counting.losses import watch_backward


def job_of(folder: Path, **told: object) -> Job:
    """A job as if a launcher had told it."""
    return Job(
        Told(
            job="a-job",
            arm="baseline",
            model=folder / "model",
            output=folder / "output",
            **told,  # pyrefly: ignore[bad-argument-type]
        )
    )


def batches(sizes: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.ones(size, 3), torch.zeros(size)) for size in sizes]


def recorded(job: Job) -> EvidenceRecord:
    """What the job leaves, once it has said all that it must."""
    job.examples(ids=["a", "b"], labels=[0, 1], scores=[[0.9, 0.1], [0.2, 0.8]])
    job.save(lambda folder: (folder / "model.txt").write_text("a model"))
    job.finish()
    return read_evidence(job.told.output / EVIDENCE_FOLDER)


def losses(job: Job) -> list[float]:
    steps = recorded(job).steps
    assert steps is not None
    return steps.loss.tolist()


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


def test_a_shorter_batch_in_the_middle_is_no_ragged_one(tmp_path: Path) -> None:
    job = job_of(tmp_path, batch_size=8)
    seen = []
    for data, _ in job.steps(batches([8, 5, 8])):
        seen.append(len(data))
        job.loss(1.0)
    assert seen == [8, 5, 8]


def test_a_step_that_the_loop_says_itself_takes_the_place_of_the_iteration(tmp_path: Path) -> None:
    job = job_of(tmp_path, batch_size=8)
    for _ in job.steps(batches([8, 8])):
        for _ in range(3):
            with job.step():
                job.loss(1.0)
    assert job.steps_taken == 6


def test_leaving_the_loop_early_counts_the_step_that_was_taken(tmp_path: Path) -> None:
    job = job_of(tmp_path, batch_size=8)
    for number, _ in enumerate(job.steps(batches([8, 8, 8]))):
        if number == 1:
            break
        job.loss(1.0)
    assert job.steps_taken == 1
    for _ in job.steps(batches([8, 8, 8])):
        job.loss(1.0)
        break
    assert job.steps_taken == 2


def test_steps_without_a_loader_go_on_until_the_loop_ends(tmp_path: Path) -> None:
    job = job_of(tmp_path, batch_size=8)
    for number, _ in enumerate(job.steps()):
        if number == 5:
            break
        job.loss(1.0)
    assert job.steps_taken == 5


def test_the_loader_s_own_length_and_attributes_are_there(tmp_path: Path) -> None:
    class Loader(list[int]):
        dataset = "the data"

    steps = job_of(tmp_path).steps(Loader([1, 2, 3]))
    assert len(steps) == 3
    assert steps.dataset == "the data"


def test_a_loss_is_what_backward_is_called_on_summed_over_a_step(tmp_path: Path) -> None:
    job = job_of(tmp_path, batch_size=4)
    model = job.compile(torch.nn.Linear(3, 1))
    for data, _ in job.steps(batches([4, 4, 4, 4]), accumulate=2):
        (model(data).mean() * 0 + 1.5).backward()
    assert losses(job) == [3.0, 3.0]


def test_a_scaled_loss_is_recorded_as_it_was(tmp_path: Path) -> None:
    job = job_of(tmp_path, batch_size=4)
    model = job.compile(torch.nn.Linear(3, 1))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with job.step():
        scaler.scale(model(torch.ones(4, 3)).mean() * 0 + 2.0).backward()
    assert losses(job) == [2.0]


def test_a_loss_that_is_not_finite_is_refused_before_the_update(tmp_path: Path) -> None:
    job = job_of(tmp_path, batch_size=4)
    model = job.compile(torch.nn.Linear(3, 1))
    with pytest.raises(NonFiniteLossError, match="nan in step 0"), job.step():
        (model(torch.ones(4, 3)).mean() * float("nan")).backward()
    assert all(each.grad is None for each in model.parameters())


def test_a_step_without_a_loss_is_refused_where_it_ends(tmp_path: Path) -> None:
    step = job_of(tmp_path, batch_size=4).step()
    step.__enter__()
    with pytest.raises(InputError, match="step 0 called backward\\(\\) on no loss"):
        step.__exit__(None, None, None)


def test_a_step_inside_another_is_refused(tmp_path: Path) -> None:
    job = job_of(tmp_path, batch_size=4)
    with pytest.raises(InputError, match="cannot be inside of another"), job.step():
        job.begin_step()


def test_a_step_that_fails_is_none(tmp_path: Path) -> None:
    job = job_of(tmp_path, batch_size=4)
    with pytest.raises(RuntimeError, match="out of luck"), job.step():
        raise RuntimeError("out of luck")
    job.step(lambda: torch.tensor(1.0))
    assert job.steps_taken == 1


def test_a_whole_step_as_a_function_gives_back_what_it_returns(tmp_path: Path) -> None:
    job = job_of(tmp_path, batch_size=4)
    assert job.step(lambda: torch.tensor(0.5)) == torch.tensor(0.5)
    assert losses(job) == [0.5]


def test_a_slow_loader_is_named(tmp_path: Path) -> None:
    def slow() -> Iterator[int]:
        for number in range(12):
            sum(range(300_000))  # takes its time, however busy the machine is
            yield number

    job = job_of(tmp_path, batch_size=4)
    for _ in job.steps(slow()):
        job.loss(1.0)
    assert any("The loader is what is slow" in each for each in recorded(job).evidence.notes)


def test_of_many_jobs_in_one_process_the_last_one_watches_the_losses() -> None:
    """A notebook starts one after the other: watches around each other would be too deep."""

    class Within:
        in_step = True

    seen: list[int] = []
    for number in range(2 * sys.getrecursionlimit()):
        watch_backward(Within(), lambda _loss, number=number: seen.append(number))
    torch.ones((), requires_grad=True).backward()
    assert seen == [2 * sys.getrecursionlimit() - 1]
