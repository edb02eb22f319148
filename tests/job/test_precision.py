"""16-bit training: where it is refused, and how small gradients survive it."""

from __future__ import annotations

import pytest
import torch

from compilegate.job.errors import ArmError
from compilegate.job.machine.numerics import check_precision, loss_scaler
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength
from training.update import WeightUpdate

CPU = torch.device("cpu")


def test_only_fp16_needs_a_gpu_and_scales_its_loss() -> None:
    with pytest.raises(ArmError, match="fp16"):
        check_precision("fp16", CPU)
    for precision in ("fp32", "bf16"):
        check_precision(precision, CPU)
        assert loss_scaler(precision, CPU) is None


def model_and_update(precision: str) -> tuple[torch.nn.Linear, WeightUpdate]:
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 2)
    recipe = Hyperparameters(precision=precision, learning_rate=0.1)
    return model, WeightUpdate(model, recipe, RunLength(steps=3, warmup=0, steps_per_epoch=3))


def test_a_scaled_update_is_the_plain_one() -> None:
    weights = []
    for precision in ("fp32", "fp16"):
        model, update = model_and_update(precision)
        for step in range(3):
            update.backward(model(torch.tensor([[1.0, 2.0, 3.0]])).square().sum())
            update.apply(step)
        weights.append(model.weight.detach())
    torch.testing.assert_close(*weights)


def test_an_update_whose_gradients_overflow_is_left_out_and_the_next_is_scaled_less() -> None:
    """The scale is part of what a checkpoint keeps."""
    model, update = model_and_update("fp16")
    before, scale = model.weight.detach().clone(), update.tensors()["scaler.scale"]
    update.backward(model(torch.full((1, 3), 1e38)).sum())
    update.apply(0)
    torch.testing.assert_close(model.weight, before)
    assert update.tensors()["scaler.scale"] == scale / 2
    _, resumed = model_and_update("fp16")
    resumed.restore(update.tensors())
    assert resumed.tensors()["scaler.scale"] == scale / 2
