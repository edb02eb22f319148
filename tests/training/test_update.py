"""The learning rate of each step, the weights' average, and the key of the compiled code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig

from compilegate.job.cache import key_here
from training.hyperparameters import Hyperparameters
from training.job import compiled_graph
from training.schedule import rate_factor, run_length
from training.update import WeightAverage


def test_the_rate_rises_to_its_peak_and_falls_towards_zero() -> None:
    factors = [rate_factor(step, steps=10, warmup=2) for step in range(10)]
    assert factors == [1 / 3, 2 / 3, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]


@given(steps=st.integers(1, 500), fraction=st.floats(0, 0.999))
def test_every_step_has_a_rate_above_zero_and_one_step_has_the_peak(
    steps: int, fraction: float
) -> None:
    recipe = Hyperparameters(batch_size=1, epochs=1, warmup_fraction=fraction)
    length = run_length(recipe, steps)
    factors = [rate_factor(step, length.steps, length.warmup) for step in range(length.steps)]
    assert (len(factors), factors.index(1), max(factors)) == (steps, length.warmup, 1)
    assert min(factors) > 0
    assert factors[: length.warmup + 1] == sorted(factors[: length.warmup + 1])
    assert factors[length.warmup :] == sorted(factors[length.warmup :], reverse=True)


def by_definition(values: list[float], decay: float) -> float:
    average = values[0]
    for updates, value in enumerate(values):
        now = min(decay, (1 + updates) / (10 + updates))
        average = now * average + (1 - now) * value
    return average


@pytest.mark.parametrize(
    ("values", "decay"),
    [
        ([3.0] * 20, 0.9),
        ([1.0, 2.0, 7.0], 0.0),
        ([1.0, 5.0, 2.0], 0.15),
        ([0.0, *[1.0] * 9], 0.999),
    ],
)
def test_the_average_follows_its_definition_beside_the_training(
    values: list[float], decay: float
) -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(model.weight, values[0])
    average = WeightAverage(model, decay)
    for value in values:
        torch.nn.init.constant_(model.weight, value)
        average.update()
        assert model.weight.item() == value
    average.apply()
    assert model.weight.item() == pytest.approx(by_definition(values, decay))


def key(width: int = 32, lengths: tuple[int, ...] = (16,), **recipe: Any) -> str:
    class Model:
        config = BertConfig(hidden_size=width, intermediate_size=64)

    graph = compiled_graph(Hyperparameters(**recipe), Model(), lengths)
    return key_here(graph, device=torch.device("cpu")).digest


@pytest.mark.slow
def test_jobs_share_compiled_code_where_shapes_precision_and_model_are_the_same() -> None:
    for same in ({"learning_rate": 0.5}, {"epochs": 9}, {"gradient_clip": 0.0}):
        assert key(**same) == key()
    others = [{"batch_size": 8}, {"precision": "bf16"}, {"width": 64}]
    shapes = [{"lengths": (32,)}, {"lengths": (8, 16)}]
    assert len({key(), *(key(**other) for other in [*others, *shapes])}) == 6
