"""What is compiled wrongly is found, located, and shown by a script of its own."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmarks.miscompilers import MISCOMPILERS
from compilegate.job.compilers import load_compiler
from compilegate.job.evidence.parity import departing
from compilegate.job.names import REPRO_SCRIPT as SCRIPT
from compilegate.job.probes import search
from compilegate.job.probes.locate import REPRO_FOLDER, Wrong, hand_over
from compilegate.job.probes.parity import probe_parity
from compilegate.job.probes.repro import TENSORS, module_path, program_of
from tests.job.every_call import states
from tests.job.probes.scenes import backend, captured, new_model

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def one_quiet_thread() -> Iterator[None]:
    """So that eager repeats itself to the last bit, and pytest does not keep what dynamo traces."""
    threads, trace = torch.get_num_threads(), logging.getLogger("torch.__trace")
    torch.set_num_threads(1)
    trace.propagate = False
    yield
    trace.propagate = True
    torch.set_num_threads(threads)


WHERE = {
    "transposed_weight_gradient": ("perceptron", "square (Linear)"),
    "scaled_weight_gradient": ("perceptron", "square (Linear)"),
    "low_precision_products": ("perceptron", "first (Linear)"),
    "tanh_gelu": ("perceptron", "activation (GELU)"),
    "detached_branch": ("perceptron", "the model's own hidden + gelu departs first:"),
    "dropped_bias": ("convolutions", "plain (Conv2d)"),
    "stale_buffers": ("convolutions", "norm (BatchNorm2d)"),
    "unmasked_relu_gradient": ("convolutions", "activation (ReLU)"),
    "averaged_pool_gradient": ("convolutions", "pool (MaxPool2d)"),
    "wrong_epsilon": ("language", "norm (LayerNorm)"),
    "shifted_mask": ("language", "attention (Attention) departs first, in masked_fill"),
    "wrong_dimension": ("language", "attention.weights (Softmax)"),
    "unscaled_dropout": ("language", "attention.dropout (Dropout)"),
    "neighbouring_embedding": ("language", "embedding (Embedding)"),
    "rough_sigmoid": ("recurrent", "cell (Cell) departs first, in sigmoid"),
    "lost_upsample_gradient": ("unet", "up (Up)"),
    "swapped_operands": ("difference", "the model's own linear - targets departs first:"),
    "wrong_divisor": ("difference", "the model's own mean departs first:"),
}
"""By what is wrong: a model that has it, and where it departs first."""


def of(kind: str, compiler: Any) -> Any:
    """The captured calls of a model; `difference` is a function that uses one."""
    if kind != "difference":
        return captured(new_model(kind), compiler)
    torch.manual_seed(0)
    model = nn.Linear(3, 1)

    def loss(inputs: Tensor, targets: Tensor) -> Tensor:
        return (model(inputs) - targets).pow(3).mean()

    return captured(
        model,
        compiler,
        function=loss,
        batch=lambda: (torch.randn(8, 3), torch.randn(8, 1)),
        loss=lambda value: value,
    )


def searched(compiled: Any, compiler: Any, wrong: list[Wrong], folder: Path) -> str:
    """Where the search sees it depart first; in this process, which spares it a start."""
    hand_over(compiled, compiler, wrong, "fp32", folder, seconds=1e6)
    search.main(folder)
    found = json.loads((folder / search.FOUND).read_text(encoding="utf-8"))
    assert found["finished"]
    return str(found["departs"])


def test_every_miscompiler_has_its_scene() -> None:
    assert sorted(WHERE) == sorted(MISCOMPILERS)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("wrong", sorted(WHERE))
def test_a_miscompiled_model_is_found_and_located(wrong: str, tmp_path: Path) -> None:
    kind, place = WHERE[wrong]
    compiler = backend(f"benchmarks.miscompilers.{wrong}")
    compiled = of(kind, compiler)
    graphs, generators = compiler.graphs(), states()
    found = probe_parity([compiled], compiler=compiler, folder=tmp_path, search_seconds=0.0)
    record, errors = found.collected(), found.errors
    assert states() == generators
    assert (record.obstacle, compiler.graphs()) == (None, graphs)
    assert errors is not None
    # Not by a hair: even with five times the limit.
    assert departing(errors, "fp32", 100.0).any()
    np.testing.assert_array_equal(errors.repeated, 0)
    assert "There is no repro: the search needed more than 0 s." in str(record.departs)
    departs = departing(errors, "fp32", 20.0)
    tensors = [
        Wrong(str(errors.tensors[place]), float(np.median(errors.compiled[:, place])), 0.0)
        for place in np.flatnonzero(departs)
    ]
    assert searched(compiled, compiler, tensors, tmp_path).startswith(place)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["perceptron", "convolutions", "language", "unet", "difference"])
def test_an_honest_compiler_is_not_accused(kind: str, tmp_path: Path) -> None:
    compiler = backend("benchmarks.miscompilers.honest")
    found = probe_parity([of(kind, compiler)], compiler=compiler, folder=tmp_path)
    record, errors = found.record, found.errors
    assert (record.obstacle, record.departs, record.repro) == (None, None, None)
    assert errors is not None
    assert not departing(errors, "fp32", 3.0).any()


@pytest.mark.long
@pytest.mark.slow
def test_a_repro_runs_by_itself_and_shows_the_defect(tmp_path: Path) -> None:
    """The whole way, with torch's own Inductor: torch 2.13 loses the gradients of a convolution."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 128),
    )
    torch.compiler.reset()
    compiler = load_compiler("inductor")
    compiled = captured(model, compiler, batch=lambda: (torch.randn(64, 32, 8, 8),), steps=2)
    found = probe_parity([compiled], compiler=compiler, folder=tmp_path, search_seconds=300.0)
    record, errors = found.collected(), found.errors
    assert errors is not None
    lost = [str(name) for name in errors.tensors[departing(errors, "fp32", 20.0)]]
    if not lost:
        pytest.skip(f"torch {torch.__version__} compiles this rightly")
    assert lost == ["gradient of 0.weight", "gradient of 0.bias"]
    assert record.repro == REPRO_FOLDER
    assert "0 (Conv2d)" in str(record.departs)
    assert "4 (Linear) depart first, compiled together" in str(record.departs)
    folder = tmp_path / REPRO_FOLDER
    assert sorted(each.name for each in folder.iterdir()) == [SCRIPT, "search.log", TENSORS]
    run = subprocess.run(
        [sys.executable, "-I", str(folder / SCRIPT), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    shown = [line for line in run.stdout.splitlines() if line.endswith("<- wrong")]
    assert {*lost} <= {line.split("  ")[-2] for line in shown}


CASES = {
    "L['self'].layers['0'].norm": "layers.0.norm",
    "L['self']._modules['layers'][0]": "layers.0",
    "L['fn'].__self__.encoder.1": "encoder.1",
    "G['model'].head": "head",
    "L['self']": "",
}


@pytest.mark.parametrize("path", sorted(CASES))
def test_paths_of_modules_are_those_of_the_model(path: str) -> None:
    assert module_path(path) == CASES[path]


def graph_of(function: Any, *arguments: Any) -> Any:
    """What dynamo captures of it."""
    torch.compiler.reset()
    found: list[Any] = []

    def keep(graph: Any, inputs: list[Any]) -> Any:
        found.append(graph)
        return graph

    torch.compile(function, backend=keep)(*arguments)
    return found[0]


@pytest.mark.slow
def test_a_graph_as_text_computes_what_the_graph_does_wherever_it_is_cut() -> None:
    def steps(inputs: Tensor, weight: Tensor, values: Tensor) -> Tensor:
        values = values.clone()
        values += 1
        values[0] = inputs[0, 0]
        with torch.no_grad():
            offset = inputs.mean()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            product = (inputs @ weight) @ values[:, None]
        return product.float() + offset - torch.zeros(1, device="cpu", dtype=inputs.dtype)

    given = {"inputs": torch.randn(3, 3), "weight": torch.randn(3, 3), "values": torch.randn(3)}
    program, constants = program_of(graph_of(steps, *given.values()), {})
    assert constants == {}
    values = {name: given[name.removeprefix("l_").removesuffix("_")] for name in program.inputs}
    expected = steps(*given.values())
    size = len(program.statements)
    for middle in range(size + 1):
        before, after = program.part(0, middle), program.part(middle, size)
        space = dict(values)
        results = before.function()(*(space[name] for name in before.inputs))
        space.update(zip(before.outputs, results, strict=True))
        (result,) = after.function()(*(space[name] for name in after.inputs)) or (None,)
        assert torch.equal(result if middle < size else space[program.outputs[0]], expected)
    assert "with torch.autocast('cpu', dtype=torch.bfloat16, enabled=True):" in program.source()
    assert "with torch.set_grad_enabled(False):" in program.source()
