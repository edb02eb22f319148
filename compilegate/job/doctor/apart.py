"""What may crash, hang, or keep a GPU's memory while its process lives: asked in a process of its
own, which prints its answer as JSON.

    python -m compilegate.job.doctor.apart torch
    python -m compilegate.job.doctor.apart xla
    python -m compilegate.job.doctor.apart trial COMPILER cpu|gpu [BACKEND]
"""

from __future__ import annotations

import copy
import importlib
import json
import os
import sys
import warnings
from typing import Any, Dict, Optional, Sequence, Tuple

from compilegate.job.compilers import load_compiler
from compilegate.job.compilers.declaration import CONFIGURED
from compilegate.job.errors import one_sentence
from compilegate.job.machine.programs import import_path, run

SECONDS = 240.0
"""torch's first import from a cold disk, CUDA's start on eight GPUs, a first compilation."""
_TOLERANCE = 1e-4
"""What a product or a gradient in fp32 may be off, relative to its largest element."""


def ask(*arguments: str) -> Dict[str, Any]:
    """The answer of such a process; `error` in it says how it ended where it has none."""
    environment = {**os.environ, "PYTHONPATH": import_path(os.environ)}
    ended = run([sys.executable, "-m", __name__, *arguments], SECONDS, environment)
    lines = ended.output.strip().splitlines()
    if ended.error is None and lines:
        try:
            return dict(json.loads(lines[-1]))
        except (TypeError, ValueError):
            pass  # not what it should print: said below
    return {"error": ended.error or "its process printed no answer"}


def torch_here() -> Dict[str, Any]:
    """The fields of `facts.Torch`."""
    import torch  # noqa: PLC0415 - its failure is an answer

    available, reason = _cuda(torch)
    triton, triton_error = _triton()
    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "available": available,
        "cuda_error": reason,
        "devices": [
            _device(torch, number)
            for number in range(torch.cuda.device_count() if available else 0)
        ],
        "threads": torch.get_num_threads(),
        "triton": triton,
        "triton_error": triton_error,
    }


def _cuda(torch: Any) -> Tuple[bool, Optional[str]]:
    """Whether CUDA starts, and else why not; nothing is wrong in a build without it."""
    if torch.version.cuda is None:
        return False, None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return True, None
        try:
            torch.cuda.init()
        except Exception as error:  # noqa: BLE001 - the driver's own words
            return False, one_sentence(error)
    return False, str(warned[0].message) if warned else "CUDA is not available"


def _triton() -> Tuple[Optional[str], Optional[str]]:
    try:
        triton = importlib.import_module("triton")
    except ModuleNotFoundError as error:
        return None, None if error.name == "triton" else one_sentence(error)
    except Exception as error:  # noqa: BLE001 - of a library that does not load, whatever it raises
        return None, one_sentence(error)
    return str(getattr(triton, "__version__", "unknown")), None


def _device(torch: Any, number: int) -> Dict[str, Any]:
    """One GPU, with a product of two matrices against float64's."""
    found: Dict[str, Any] = {"name": f"GPU {number}"}
    try:
        properties = torch.cuda.get_device_properties(number)
        free, total = torch.cuda.mem_get_info(number)
        capability = f"{properties.major}.{properties.minor}"
        found.update(
            name=properties.name, capability=capability, total_bytes=total, free_bytes=free
        )
        left, right = (torch.rand(256, 256, dtype=torch.float64) for _ in range(2))
        product = (left.to(number, torch.float32) @ right.to(number, torch.float32)).double().cpu()
        wrong = float((product - left @ right).abs().max() / (left @ right).abs().max())
        if not wrong <= _TOLERANCE:
            found["error"] = f"a product of matrices is wrong by {wrong:.1e}"
    except Exception as error:  # noqa: BLE001 - of a driver, a kernel or a lack of memory
        found["error"] = one_sentence(error)
    return found


def xla_here() -> Dict[str, Any]:
    """The fields of `facts.Xla` but its version. The import changes how a process computes."""
    importlib.import_module("torch_xla.core.xla_model").xla_device()
    return {"configured": os.environ.get(CONFIGURED) == "1"}


def trial(name: str, device: str, *backend: str) -> Dict[str, Any]:
    """Compile a small model and compare its gradients with eager's: an `error`, or nothing."""
    import torch  # noqa: PLC0415 - its failure is an answer

    where = "cuda" if device == "gpu" else device
    torch.manual_seed(0)
    eager = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    ).to(where)
    model = copy.deepcopy(eager)
    inputs = torch.randn(8, 16).to(where)
    compiler = load_compiler(name, {"backend": backend[0]} if backend else {})
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
        wrong = float((one.grad - other.grad).abs().max() / one.grad.abs().max())
        if not wrong <= _TOLERANCE:
            return {"error": f"the gradient of {parameter} differs from eager's by {wrong:.1e}"}
    return {}


def main(arguments: Sequence[str]) -> None:
    """Print the answer to one question."""
    question, *rest = arguments
    try:
        answer = {"torch": torch_here, "xla": xla_here, "trial": trial}[question](*rest)
    except Exception as error:  # noqa: BLE001 - whatever a library or a compiler raises is the answer
        answer = {"error": one_sentence(error)[:400]}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
