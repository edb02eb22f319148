"""Probes a small model against itself, and prints the result as JSON.

Run by the interpreter of the oldest training container, whose torch has no compiler.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from compilegate.job.compilers import load_compiler
from compilegate.job.machine.numerics import Generators, autocast
from compilegate.job.probes.capture import (
    Autocast,
    Call,
    Compiled,
    ObstacleError,
    await_cotangents,
)
from compilegate.job.probes.parity import probe_parity
from compilegate.job.probes.replay import Replay


def probed(precision: str) -> dict[str, Any]:
    """What the parity probe finds in two steps of that precision."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
    compiled = Compiled("model", model, eager=model.forward, compiled=model.forward)
    for step in range(2):
        batch = torch.randn(8, 16)
        with autocast(precision, torch.device("cpu")):
            call = compiled.capture_call(step, (batch,), {})
            output = model(batch)
        await_cotangents(call, output)
        output.float().square().mean().backward()
    with tempfile.TemporaryDirectory() as folder:
        found = probe_parity([compiled], compiler=load_compiler("eager"), folder=Path(folder))
    largest = None if found.errors is None else float(found.errors.eager.max())
    return {
        "obstacle": found.record.obstacle,
        "steps": found.record.steps,
        "largest_error": largest,
    }


def traced(dtype: torch.dtype) -> str:
    """What a step that was traced in that type is compared with."""
    model = torch.nn.Linear(4, 2)
    call = Call(
        step=0,
        arguments=(torch.ones(3, 4),),
        named={},
        random=Generators(),
        autocast=Autocast("cpu", True, dtype),
        cotangents={"": torch.ones(3, 2)},
    )
    part = Compiled("Linear", model, model.forward, model.forward)
    try:
        with Replay(part, load_compiler("eager")) as replay:
            return str(replay.eager(call).tensors["output"].dtype)
    except ObstacleError as error:
        return str(error)


if __name__ == "__main__":
    found: dict[str, Any] = {precision: probed(precision) for precision in ("fp32", "bf16")}
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        found[f"traced in {name}"] = traced(dtype)
    print(json.dumps(found))
