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
from torch import Tensor, fx, nn
from torch.nn import functional

from benchmarks.miscompilers import MISCOMPILERS
from compilegate.job.compilers import load_compiler
from compilegate.job.evidence.parity import departing
from compilegate.job.names import REPRO_SCRIPT as SCRIPT
from compilegate.job.probes.parity import Parity, probe_parity
from compilegate.job.probes.repro import (
    LOG,
    REPRO_FOLDER,
    TENSORS,
    module_path,
    source_of,
    standalone,
)
from docs.examples.miscompiled import Net, UNet
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["perceptron", "convolutions", "language", "unet", "difference"])
def test_an_honest_compiler_is_not_accused(kind: str, tmp_path: Path) -> None:
    compiler = backend("benchmarks.miscompilers.honest")
    compiled = captured(new_model(kind), compiler)
    found = probe_parity([compiled], compiler=compiler, folder=tmp_path)
    assert (found.record.obstacle, found.record.departs) == (None, None)
    assert found.errors is not None
    assert not departing(found.errors, "fp32", 3.0).any()


# What torch itself compiles wrongly: docs/miscompilations.md.


class Issue185509(nn.Module):
    """Interpolation, a convolution, and a maximum of overlapping windows that a mask chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, images: Tensor, mask: Tensor) -> Tensor:
        scale = (1.5, 1.25)
        large = functional.interpolate(images, scale_factor=scale, mode="bilinear")
        conv = self.conv(large[:, :, 1:7, 1:8])
        return torch.where(mask, conv, functional.max_pool2d(conv, 3, 1, 1))


KNOWN: dict[str, tuple[Any, str, Any, list[str]]] = {
    "cnn": (Net, "fp32", lambda: (torch.randn(64, 1, 8, 8),), ["conv1", "conv2"]),
    "unet": (UNet, "bf16", lambda: (torch.randn(64, 1, 16, 16),), ["down", "middle"]),
    "185509": (
        Issue185509,
        "fp32",
        lambda: (torch.randn(1, 3, 6, 8), torch.rand(1, 4, 6, 7) > 0.5),
        ["conv"],
    ),
}


def by_inductor(name: str, folder: Path, seconds: float) -> tuple[Parity, set[str]]:
    """What the probe finds, and the parameters with wrong gradients; skips where torch is right."""
    kind, precision, batch, layers = KNOWN[name]
    torch.manual_seed(0)
    torch.compiler.reset()
    compiler = load_compiler("inductor")
    compiled = captured(kind(), compiler, precision=precision, batch=batch, steps=3)
    found = probe_parity([compiled], compiler=compiler, folder=folder, repro_seconds=seconds)
    assert found.errors is not None
    limit = {"fp32": 20.0, "bf16": 4.0}[found.record.precision]
    wrong = found.errors.tensors[departing(found.errors, found.record.precision, limit)]
    if not len(wrong):
        pytest.skip(f"torch {torch.__version__} compiles this rightly")
    lost = {str(each).removeprefix("gradient of ") for each in wrong}
    assert lost >= {f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias")}
    return found, lost


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ["unet", "185509"])
def test_what_torch_compiles_wrongly_is_found(name: str, tmp_path: Path) -> None:
    found, _ = by_inductor(name, tmp_path, 0.0)
    found.stop()


@pytest.mark.long
@pytest.mark.slow
def test_a_repro_runs_by_itself_and_shows_the_defect(tmp_path: Path) -> None:
    found, lost = by_inductor("cnn", tmp_path, 300.0)
    record = found.collected()
    assert (record.repro, record.reproduced) == (REPRO_FOLDER, True)
    assert "gradient of conv2." in str(record.departs)
    folder = tmp_path / REPRO_FOLDER
    assert sorted(each.name for each in folder.iterdir()) == [SCRIPT, LOG, TENSORS]
    command = [sys.executable, "-I", str(folder / SCRIPT), "--check"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    shown = {line.split("  ")[-2] for line in run.stdout.splitlines() if "<- wrong" in line}
    assert {f"gradient of {name}" for name in lost} <= shown
    assert "# conv2 (Conv2d)" in (folder / SCRIPT).read_text(encoding="utf-8")


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
