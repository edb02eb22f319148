"""Compiles a small model with one compiler and compares its gradients with eager's; prints JSON.

python -m compilegate.job.doctor.looking.trial_here COMPILER cpu|gpu [BACKEND]
"""

from __future__ import annotations

import copy
import json
import sys
from typing import Any, Dict, Sequence

from compilegate.job.compilers import load_compiler
from compilegate.job.errors import one_sentence

_TOLERANCE = 1e-4
"""What a gradient in fp32 may be off, relative to its largest element."""


def main(arguments: Sequence[str]) -> None:
    """Print an empty object where all is well, and else an `error`."""
    compiler, device, *backend = arguments
    given = {"backend": backend[0]} if backend else {}
    try:
        answer = _tried(compiler, "cuda" if device == "gpu" else device, given)
    except Exception as error:  # noqa: BLE001 - whatever a compiler raises is the answer
        answer = {"error": one_sentence(error)}
    print(json.dumps(answer), flush=True)


def _tried(name: str, device: str, given: Dict[str, Any]) -> Dict[str, Any]:
    import torch  # noqa: PLC0415 - its failure is an answer

    torch.manual_seed(0)
    eager = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    ).to(device)
    model = copy.deepcopy(eager)
    inputs = torch.randn(8, 16).to(device)
    compiler = load_compiler(name, given)
    compiled = compiler.compile(model.forward, model)
    for step in range(3):  # CUDA graphs are recorded in the second and replayed in the third
        model.zero_grad()

        def take() -> Any:
            loss = compiled(inputs).square().mean()
            loss.backward()
            return loss

        compiler.take_step(step, take, None)
        compiler.end_step()
    eager(inputs).square().mean().backward()
    record = compiler.record(0.0, 0)
    if name != "eager" and not record.ran:
        return {"error": f"nothing shows that it compiled: {dict(record.proof)}"}
    for (parameter, one), other in zip(eager.named_parameters(), model.parameters()):
        if one.grad is None or other.grad is None:
            return {"error": f"the gradient of {parameter} is missing"}
        difference = float((one.grad - other.grad).abs().max() / one.grad.abs().max())
        if not difference <= _TOLERANCE:
            return {
                "error": f"the gradient of {parameter} differs from eager's by {difference:.1e}"
            }
    return {}


if __name__ == "__main__":
    main(sys.argv[1:])
