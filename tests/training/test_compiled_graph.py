"""The key of a job: what changes the compiled code is in it, what does not is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig

from compilegate.job.cache import CacheKey, key_here
from training.arguments import Folders, JobArguments
from training.hyperparameters import Hyperparameters
from training.job import compiled_graph

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def key(
    *,
    width: int = 32,
    lengths: tuple[int, ...] = (16,),
    seed: int = 1,
    arm: str = "a",
    **recipe: Any,
) -> CacheKey:
    job = JobArguments(
        name=f"{arm}-{seed}",
        arm=arm,
        seed=seed,
        compiler="inductor",
        on_failure="stop",
        parity_steps=0,
        compile_cache_megabytes=1,
        checkpoint_seconds=300.0,
        hyperparameters=Hyperparameters(hidden_size=width, **recipe),
        folders=Folders(Path("data"), Path("model"), Path("output")),
    )

    class Model:
        config = BertConfig(hidden_size=width, intermediate_size=64)

    return key_here(compiled_graph(job, Model(), lengths), device=CPU)


@pytest.mark.parametrize(
    "other",
    [{"seed": 2}, {"arm": "b"}, {"learning_rate": 0.5}, {"epochs": 9}, {"gradient_clip": 0.0}],
    ids=str,
)
def test_jobs_that_run_the_same_graph_share_a_key(other: dict[str, Any]) -> None:
    assert key(**other).digest == key().digest


@pytest.mark.parametrize(
    "other",
    [
        {"batch_size": 8},
        {"precision": "bf16"},
        {"lengths": (32,)},
        {"lengths": (8, 16)},
        {"width": 64},
    ],
    ids=str,
)
def test_another_shape_or_precision_is_another_key(other: dict[str, Any]) -> None:
    assert key(**other).digest != key().digest
