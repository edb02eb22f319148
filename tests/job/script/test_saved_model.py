"""What a script reports of its trained model, and refusals where that is not enough."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn

from compilegate.job import InputError, Job, examples_of
from compilegate.job.script.example_rows import ExampleRows
from tests.job.script.jobs import AOT_EAGER, ROWS, job_of, left, recorded, trained, written


def linear(job: Job) -> nn.Module:
    model: nn.Module = trained(job, nn.Linear(6, 2), ROWS.split(4))
    return model


def evaluated(job: Job, model: nn.Module) -> None:
    with torch.no_grad():
        job.examples(ids=["a", "b"], labels=[0, 1], logits=model(ROWS[:2]))


@pytest.mark.slow
@given(rows=st.integers(1, 20), classes=st.integers(2, 5))
def test_logits_become_probabilities_and_losses_that_agree(rows: int, classes: int) -> None:
    chance = np.random.default_rng(rows * 31 + classes)
    logits, labels = chance.normal(0, 8, (rows, classes)), chance.integers(0, classes, rows)
    found = examples_of(ids=np.arange(rows), labels=labels, logits=torch.tensor(logits))
    assert np.allclose(found.scores.sum(axis=1), 1.0, atol=1e-12)
    assert np.allclose(found.losses, -np.log(found.scores[np.arange(rows), labels]))


def test_half_precision_and_lists_are_examples_too() -> None:
    scores = [[0.25, 0.75], [0.5, 0.5]]
    half = torch.tensor(scores, dtype=torch.bfloat16)
    found = examples_of(ids=[7, 8], labels=torch.tensor([1, 0]), scores=half)
    assert (found.scores.tolist(), found.ids.tolist()) == (scores, ["7", "8"])


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"labels": [0]}, "was given no ids"),
        ({"ids": ["a"]}, "was given ids alone"),
        ({"ids": ["a"], "scores": [[0.5, 0.5]]}, "scores and no labels"),
        ({"ids": ["a"], "labels": [2], "scores": [[0.5, 0.5]]}, "labels from 2 to 2"),
        ({"ids": ["a"], "labels": [0], "scores": [[3.0, -1.0]]}, "use logits="),
        ({"ids": ["a"], "labels": [0], "scores": [0.5]}, "a column for each class"),
        ({"ids": ["a"], "labels": [0, 1], "scores": [[0.5, 0.5]]}, "1 ids and 2 labels"),
        ({"ids": ["a"], "targets": [0.5]}, "only one of targets and predictions"),
        ({"ids": ["a", "b"], "losses": [0.5]}, "2 ids and 1 losses"),
        ({"ids": ["a", "a"], "losses": [0.5, 0.5]}, "'a' more than once"),
    ],
)
def test_what_is_missing_or_does_not_fit_is_named(
    columns: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        examples_of(**columns)


def test_an_evaluation_that_begins_again_replaces_the_one_before(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    job.step(lambda: torch.tensor(1.0))
    job.examples(ids=["x", "y"], losses=[1.0, 2.0])
    job.step(lambda: torch.tensor(1.0))
    for _ in range(2):  # once more with nothing trained in between
        for ids in (["a", "b"], ["c"]):
            job.examples(ids=ids, losses=[0.5] * len(ids))
    found = recorded(job).examples
    assert found.ids.tolist() == ["a", "b", "c"]


def test_what_is_saved_is_what_was_evaluated(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    model = linear(job)
    evaluated(job, model)
    with job.step():
        model(ROWS).mean().backward()
    evaluated(job, model)
    job.save(nn.parallel.DataParallel(model))
    job.finish()
    weights = load_file(tmp_path / "model" / "model.safetensors")
    assert torch.equal(weights["weight"], model.weight)  # type: ignore[arg-type]
    assert set(weights) == {"weight", "bias"}


def train_on(job: Job) -> None:
    model = linear(job)
    evaluated(job, model)
    with torch.no_grad():
        model.bias.add_(1.0)  # type: ignore[operator]
    job.save(model)


def never_save(job: Job) -> None:
    evaluated(job, linear(job))
    job.finish()


def never_evaluate(job: Job) -> None:
    job.save(linear(job))
    job.finish()


def save(job: Job, model: Any) -> None:
    job.step(lambda: torch.tensor(1.0))
    job.save(model)


def compile_nothing(job: Job) -> None:
    """Named after the first step, and not when all was trained for nothing."""
    with job.step():
        nn.Linear(6, 2)(ROWS).mean().backward()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (compile_nothing, "the script compiled nothing"),
        (train_on, "has changed since it was evaluated"),
        (lambda job: job.save(nn.Linear(3, 2)), "before any training step was counted"),
        (never_save, "ended without job.save\\(model\\)"),
        (never_evaluate, "ended without job.examples"),
        (lambda job: save(job, ["weights"]), "was given a list; expected a torch module"),
        (
            lambda job: save(job, nn.ParameterDict({"w": torch.zeros(2, dtype=torch.complex128)})),
            "complex128.*pass a function",
        ),
        (
            lambda job: job.compile(torch.compile(nn.Linear(3, 2))),
            "torch.compile has wrapped already",
        ),
        (lambda job: job.compile(lambda x: x * 2), "needs the module that holds the parameters"),
    ],
)
def test_what_a_script_forgets_is_named_with_what_to_do(
    script: Callable[[Job], None], sentence: str, tmp_path: Path
) -> None:
    config = AOT_EAGER if script is compile_nothing else {}
    with pytest.raises(InputError, match=sentence):
        script(job_of(tmp_path, **config))


def test_a_compiled_model_that_is_never_called_in_a_step_is_noted_early_and_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_of(tmp_path, **AOT_EAGER)
    model, other = nn.Linear(6, 2), nn.Linear(6, 2)
    job.compile(model)
    for number in range(1, 7):
        with job.step():
            other(ROWS).mean().backward()
        assert ("Linear was given to job.compile()" in capsys.readouterr().out) is (number == 4)
    with pytest.raises(InputError, match="and never called within a training"):
        job.save(model)


def test_a_process_that_divides_its_steps_among_accelerators_counts_the_batch_of_each(
    tmp_path: Path,
) -> None:
    job = job_of(tmp_path, replicas=4)
    for _ in range(10):
        job.step(lambda: torch.tensor(1.0))
    record = recorded(job)
    recipe, steps, speed = record.evidence.recipe, record.steps, record.evidence.speed
    assert (recipe["batch_size"], recipe["world_size"], recipe["global_batch_size"]) == (4, 4, 16)
    steady = steps.seconds[speed.steady_from :]
    assert speed.samples_per_second == pytest.approx(16 * len(steady) / steady.sum())


@pytest.mark.slow
@given(
    rows=st.integers(2, 12),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)),
    evaluations=st.integers(1, 3),
    first_rows=st.integers(2, 12),
)
def test_examples_by_their_place_that_are_evaluated_again_replace_the_evaluation_before(
    rows: int,
    sizes: tuple[int, int, int],
    evaluations: int,
    first_rows: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """In batches of any size, and where the first evaluation was of the first examples alone."""
    chance = np.random.default_rng(rows)
    losses, labels = chance.exponential(1, rows), chance.integers(0, 3, rows)
    logits = chance.normal(0, 1, (rows, 3))
    job = job_of(tmp_path_factory.getbasetemp() / "places")
    job.step(lambda: torch.tensor(1.0))
    for number in range(evaluations):
        last = min(first_rows, rows) if number == 0 and evaluations > 1 else rows
        noise = 1 + 1e-6 * number  # of a GPU, that adds up in another order
        for first in range(0, last, sizes[number]):
            batch = slice(first, min(first + sizes[number], last))
            job.examples(
                ids=job.positions(len(labels[batch])),
                labels=labels[batch],
                logits=logits[batch] * noise,
                losses=losses[batch] * noise,
                slices={"even": [str(each % 2) for each in range(rows)[batch]]},
            )
    job.save(written)
    job.finish()
    found = left(job.config.output).examples
    assert found.ids.tolist() == [str(each) for each in range(rows)]
    assert found.labels.tolist() == labels.tolist()
    assert np.allclose(found.losses, losses)


def test_places_of_other_examples_are_added() -> None:
    rows = ExampleRows()
    rows.by_place = True
    for first, losses in ((0, [0.5, 0.25]), (2, [0.5, 0.75]), (4, [0.5])):
        rows.add(ids=np.arange(first, first + len(losses)), losses=losses)
    assert rows.examples().losses.tolist() == [0.5, 0.25, 0.5, 0.75, 0.5]
