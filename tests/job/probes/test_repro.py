"""What is compiled wrongly is found, and shown by a script of its own."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, fx

from benchmarks.miscompilers import MISCOMPILERS
from compilegate.job.compilers import load_compiler
from compilegate.job.contract import REPRO_SCRIPT as SCRIPT
from compilegate.job.evidence.parity import departing
from compilegate.job.probes.parity import probe_parity
from compilegate.job.probes.repro import (
    LOG,
    REPRO_FOLDER,
    TENSORS,
    module_path,
    source_of,
    standalone,
)
from docs.examples.miscompiled import Net
from tests.job.probes.scenes import backend, captured, new_model, states

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.slow]


KINDS = {
    **dict.fromkeys(("dropped_bias", "stale_buffers", "unmasked_relu_gradient"), "convolutions"),
    **dict.fromkeys(("averaged_pool_gradient",), "convolutions"),
    **dict.fromkeys(("wrong_epsilon", "shifted_mask", "wrong_dimension"), "language"),
    **dict.fromkeys(("unscaled_dropout", "neighbouring_embedding"), "language"),
    **{"rough_sigmoid": "recurrent", "lost_upsample_gradient": "unet"},
    **dict.fromkeys(("swapped_operands", "wrong_divisor"), "difference"),
}
"""By what is wrong, a model that has it; the others are of a perceptron."""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("wrong", sorted(MISCOMPILERS))
def test_a_miscompiled_model_is_found_and_shown(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    compiler = backend(f"benchmarks.miscompilers.{wrong}")
    compiled = captured(new_model(KINDS.get(wrong, "perceptron")), compiler)
    graphs, generators = compiler.graphs(), states()
    found = probe_parity([compiled], compiler=compiler, folder=tmp_path, repro_seconds=0.0)
    record, errors = found.collected(), found.errors
    assert states() == generators
    assert (record.obstacle, compiler.graphs()) == (None, graphs)
    assert record.repro == REPRO_FOLDER
    assert errors is not None
    # Not by a hair: even with five times the limit.
    assert departing(errors, "fp32", 100.0).any()
    np.testing.assert_array_equal(errors.repeated, 0)
    script = tmp_path / REPRO_FOLDER / SCRIPT
    monkeypatch.setattr(sys, "argv", [str(script), "--check"])
    torch.compiler.reset()
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:  # in this process, which spares it a start
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 1
    assert "<- wrong" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.slow
def test_what_torch_compiles_wrongly_is_found_and_its_repro_runs_by_itself(tmp_path: Path) -> None:
    """The network of docs/miscompilations.md."""
    torch.manual_seed(0)
    torch.compiler.reset()
    compiler = load_compiler("inductor")
    compiled = captured(Net(), compiler, batch=lambda: (torch.randn(64, 1, 8, 8),))
    found = probe_parity([compiled], compiler=compiler, folder=tmp_path)
    assert found.errors is not None
    wrong = {str(each) for each in found.errors.tensors[departing(found.errors, "fp32", 20.0)]}
    if not wrong:
        pytest.skip(f"torch {torch.__version__} compiles this rightly")
    lost = {
        f"gradient of {layer}.{kind}" for layer in ("conv1", "conv2") for kind in ("weight", "bias")
    }
    assert wrong >= lost
    record = found.collected()
    assert (record.repro, record.reproduced) == (REPRO_FOLDER, True)
    assert "gradient of conv2." in str(record.departs)
    folder = tmp_path / REPRO_FOLDER
    assert sorted(each.name for each in folder.iterdir()) == [LOG, SCRIPT, TENSORS]
    assert "# conv2 (Conv2d)" in (folder / SCRIPT).read_text(encoding="utf-8")
    command = [sys.executable, "-I", str(folder / SCRIPT), "--check"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    shown = {line.split("  ")[-2] for line in run.stdout.splitlines() if "<- wrong" in line}
    assert lost <= shown


CASES = {
    "L['self'].layers['0'].norm": "layers.0.norm",
    "L['self']._modules['layers'][0]": "layers.0",
    "L['fn'].__self__.encoder.1": "encoder.1",
    "G['model'].head": "head",
    "L['self']": "",
}


def test_paths_of_modules_are_those_of_the_model() -> None:
    assert {path: module_path(path) for path in CASES} == CASES


@pytest.mark.slow
def test_the_source_of_a_graph_computes_the_same() -> None:
    offset = torch.full((3,), 2.0)

    def steps(inputs: Tensor, weight: Tensor, values: Tensor) -> Tensor:
        values = values.clone()
        values += 1
        values[0] = inputs[0, 0]
        with torch.no_grad():
            mean = inputs.mean() + offset.sum()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            product = (inputs @ weight) @ values[:, None]
        return product.float() + mean - torch.zeros(1, device="cpu", dtype=inputs.dtype)

    graphs: list[fx.GraphModule] = []

    def keep(graph: Any, inputs: list[Any]) -> Any:
        graphs.append(graph)
        return graph

    given = {"inputs": torch.randn(3, 3), "weight": torch.randn(3, 3), "values": torch.randn(3)}
    torch.compiler.reset()
    expected = torch.compile(steps, backend=keep)(**given)
    (captured_graph,) = graphs
    placeholders = [each for each in captured_graph.graph.nodes if each.op == "placeholder"]
    values = {each.name: given.get(each.name[2:-1], offset) for each in placeholders}
    graph, inputs, outputs = standalone(captured_graph, values, {"l_weight_": "layer.weight"})
    assert "p_layer_weight" in inputs
    assert len(outputs) == 1
    space: dict[str, Any] = {"torch": torch, "device": torch.device}
    exec(source_of(graph), space)  # noqa: S102
    assert torch.equal(space["part"](*inputs.values())[0], expected)
