"""16-bit training: where it is refused, and how small gradients survive it."""

from __future__ import annotations

import pytest
import torch

from compilegate.job.errors import ArmError
from compilegate.job.stepping.precision import check_precision, loss_scaler
from training.hyperparameters import Hyperparameters
from training.schedule import RunLength
from training.update import WeightUpdate

CPU = torch.device("cpu")


def test_fp16_is_refused_by_name_where_there_is_no_gpu() -> None:
    with pytest.raises(ArmError, match="precision fp16 needs a GPU, and this job has a cpu"):
        check_precision("fp16", CPU)
    check_precision("bf16", CPU)


def test_only_fp16_scales_its_loss() -> None:
    assert loss_scaler("fp32", CPU) is None
    assert loss_scaler("bf16", CPU) is None


def test_a_scaled_update_is_the_plain_one() -> None:
    weights = {name: trained(name) for name in ("fp32", "fp16")}
    torch.testing.assert_close(weights["fp16"], weights["fp32"])


def test_an_update_whose_gradients_overflow_is_left_out_and_the_next_is_scaled_less() -> None:
    model, update = model_and_update("fp16")
    before = model.weight.detach().clone()
    scale = update.tensors()["scaler.scale"]
    update.backward(model(torch.full((1, 3), 1e38)).sum())
    update.apply(0)
    torch.testing.assert_close(model.weight, before)
    assert update.tensors()["scaler.scale"] == scale / 2


def test_the_scale_is_part_of_what_a_checkpoint_keeps() -> None:
    model, update = model_and_update("fp16")
    update.backward(model(torch.full((1, 3), 1e38)).sum())
    update.apply(0)
    _, resumed = model_and_update("fp16")
    resumed.restore(update.tensors())
    assert resumed.tensors()["scaler.scale"] == update.tensors()["scaler.scale"]


def trained(precision: str) -> torch.Tensor:
    model, update = model_and_update(precision)
    for step in range(3):
        update.backward(model(torch.tensor([[1.0, 2.0, 3.0]])).square().sum())
        update.apply(step)
    return model.weight.detach()


def model_and_update(precision: str) -> tuple[torch.nn.Linear, WeightUpdate]:
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 2)
    recipe = Hyperparameters(precision=precision, learning_rate=0.1)
    return model, WeightUpdate(model, recipe, RunLength(steps=3, warmup=0, steps_per_epoch=3))
