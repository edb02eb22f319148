"""The moving average of the weights."""

from __future__ import annotations

import pytest
import torch

from training.update import WeightAverage


def one_weight(value: float) -> torch.nn.Linear:
    model = torch.nn.Linear(1, 1, bias=False)
    set_weight(model, value)
    return model


def set_weight(model: torch.nn.Linear, value: float) -> None:
    with torch.no_grad():
        model.weight.fill_(value)


def average_of(values: list[float], decay: float) -> float:
    model = one_weight(values[0])
    average = WeightAverage(model, decay)
    for value in values:
        set_weight(model, value)
        average.update()
    average.apply()
    return model.weight.item()


def test_constant_weights_are_their_own_average() -> None:
    assert average_of([3.0] * 20, decay=0.9) == pytest.approx(3.0)


def test_without_averaging_the_last_weights_stay() -> None:
    assert average_of([1.0, 2.0, 7.0], decay=0.0) == 7.0


def test_the_average_follows_its_definition() -> None:
    expected = 1.0
    for updates, value in enumerate([1.0, 5.0, 2.0]):
        decay = min(0.15, (1 + updates) / (10 + updates))
        expected = decay * expected + (1 - decay) * value
    assert average_of([1.0, 5.0, 2.0], decay=0.15) == pytest.approx(expected)


def test_a_short_run_is_not_dominated_by_its_first_weights() -> None:
    assert average_of([0.0] + [1.0] * 9, decay=0.999) > 0.9


def test_updating_leaves_the_training_weights_alone() -> None:
    model = one_weight(1.0)
    average = WeightAverage(model, 0.9)
    set_weight(model, 4.0)
    average.update()
    assert model.weight.item() == 4.0
