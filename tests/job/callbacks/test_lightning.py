"""Lightning under the gate, by one argument more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from compilegate.gate.evidence import read_evidence
from compilegate.job import CompilegateError
from tests.job.callbacks.fresh import environment, in_job
from tests.job.callbacks.lightning_training import TwoParts, train
from tests.job.callbacks.models import COMPILED

pytestmark = pytest.mark.slow


SHAPES = {
    "network.0.weight": (16, 5),
    "network.0.bias": (16,),
    "network.2.weight": (3, 16),
    "network.2.bias": (3,),
}


def shapes(folder: Path) -> Any:
    weights = load_file(folder / "model" / "model.safetensors")
    return {name: each.shape for name, each in weights.items()}


def parts(module: Any) -> Any:
    return [module.encoder, module.decoder]


def of_batch(module: Any, batch: Any) -> Any:
    x, y = batch
    return {"logits": module.classes(x), "labels": y, "ids": [f"{row.sum():.6f}" for row in x]}


def test_a_training_is_compiled_timed_judged_and_saved(tmp_path: Path) -> None:
    reported = in_job(
        tmp_path,
        train,
        config={**COMPILED, "precision": "bf16", "batch_size": 4},
        precision="bf16-mixed",
        accumulate_grad_batches=2,
        val_check_interval=3,
    )
    found = read_evidence(tmp_path / "evidence")
    evidence, examples = found.evidence, found.examples
    assert (evidence.compiler.ran, evidence.compiler.recompilations) == (True, 0)
    assert len(found.steps.seconds) == reported["steps"] == 9
    assert evidence.recipe["global_batch_size"] == 8
    assert (evidence.parity.precision, evidence.parity.obstacle) == ("bf16", None)
    right = examples.scores.argmax(axis=1) == examples.labels
    assert np.mean(right) == pytest.approx(reported["val_right"]) == evidence.metrics["val_right"]
    assert shapes(tmp_path) == SHAPES


def test_compiled_modules_and_examples_may_be_named_by_functions(tmp_path: Path) -> None:
    functions = {"compile": parts, "examples": of_batch}
    in_job(tmp_path, train, config=COMPILED, module=TwoParts, callback=functions)
    found = read_evidence(tmp_path / "evidence")
    compiler = found.evidence.compiler
    assert (compiler.graphs, compiler.recompilations) == (2, 0)
    assert len(set(found.examples.ids)) == 10


def test_a_module_that_only_logs_is_judged_by_its_metrics(tmp_path: Path) -> None:
    reported = in_job(tmp_path, train, arguments=(False,))
    found = read_evidence(tmp_path / "evidence")
    assert found.examples is None
    assert found.evidence.metrics["val_right"] == pytest.approx(reported["val_right"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"module": TwoParts}, "parameters .encoder, decoder.; choose which are compiled"),
        (
            {"config": {"precision": "bf16", "alone": False}},
            "the job's precision is bf16, and the Trainer's is fp32",
        ),
        ({"config": {"batch_size": 8}}, "the job's batch_size is 8, and the loader's is 4"),
    ],
)
def test_what_cannot_be_judged_is_said_where_it_happens(
    arguments: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(CompilegateError, match=sentence):
        in_job(tmp_path, train, **arguments)


@pytest.mark.long
def test_a_sharded_model_is_trained_compiled_and_saved_whole(tmp_path: Path) -> None:
    config = {**COMPILED, "job": "job-1", "arm": "arm", "batch_size": 4, "seed": 0}
    subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"),
            *("--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0"),
            *("-m", "tests.job.callbacks.lightning_training"),
        ],
        env=environment(tmp_path, config),
        cwd=tmp_path,
        check=True,
    )
    found = read_evidence(tmp_path / "evidence")
    compiler, parity = found.evidence.compiler, found.evidence.parity
    assert (compiler.ran, compiler.graphs, compiler.recompilations) == (True, 1, 0)
    assert (parity.steps, parity.obstacle is None) == (0, False)
    assert shapes(tmp_path) == SHAPES
