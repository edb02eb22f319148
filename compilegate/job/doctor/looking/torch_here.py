"""What torch is and can do here, printed as JSON: a program, since it may crash, hang, or keep a
GPU's memory for as long as its process lives.

    python -m compilegate.job.doctor.looking.torch_here
"""

from __future__ import annotations

import importlib
import json
import time
import warnings
from typing import Any, Dict, Optional, Tuple

from compilegate.job.doctor.looking.timing import timed

_SIZE = 256
_SECONDS = 0.6
_TOLERANCE = {"fp32": 1e-5, "tf32": 5e-3, "bf16": 2e-2, "fp16": 5e-3}
"""What a product of two matrices may be off, relative to its largest element."""


def main() -> None:
    """Print all of `facts.Torch`, and `timings` beside it."""
    print(json.dumps(_described()), flush=True)


def _described() -> Dict[str, Any]:
    try:
        import torch  # noqa: PLC0415 - its failure is an answer
    except Exception as error:  # noqa: BLE001 - of a library that does not load, whatever it raises
        return {"error": _line(error)}
    available, reason = _cuda(torch)
    triton, triton_error = _triton()
    devices, timings = [], []
    for number in range(torch.cuda.device_count() if available else 0):
        device, timing = _device(torch, number)
        devices.append(device)
        timings += [] if timing is None else [timing]
    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "architectures": list(torch.cuda.get_arch_list()) if torch.version.cuda else [],
        "cudnn": _joined(torch.backends.cudnn.version() if torch.version.cuda else None),
        "nccl": _nccl(torch) if torch.version.cuda else None,
        "available": available,
        "cuda_error": reason,
        "devices": devices,
        "threads": torch.get_num_threads(),
        "triton": triton,
        "triton_error": triton_error,
        "settings": _settings(torch),
        "timings": timings,
    }


def _cuda(torch: Any) -> Tuple[bool, Optional[str]]:
    """Whether CUDA starts, and else why not; nothing is wrong in a build without it."""
    if torch.version.cuda is None:
        return False, None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        available = bool(torch.cuda.is_available())
        if available:
            return True, None
        try:
            torch.cuda.init()
        except Exception as error:  # noqa: BLE001 - the driver's own words
            return False, _line(error)
    return False, _line(said[0].message) if said else "CUDA is not available"


def _triton() -> Tuple[Optional[str], Optional[str]]:
    try:
        triton = importlib.import_module("triton")
    except ModuleNotFoundError as error:
        return None, None if error.name == "triton" else _line(error)
    except Exception as error:  # noqa: BLE001 - of a library that does not load, whatever it raises
        return None, _line(error)
    return str(getattr(triton, "__version__", "unknown")), None


def _device(torch: Any, number: int) -> Tuple[Dict[str, Any], Optional[Dict[str, Any]]]:
    """One GPU, tried out in every precision, and how its times vary."""
    found: Dict[str, Any] = {"name": f"GPU {number}", "capability": "", "total_bytes": 0}
    timing: Optional[Dict[str, Any]] = None
    precisions = []
    try:
        free, total = torch.cuda.mem_get_info(number)
        properties = torch.cuda.get_device_properties(number)
        found.update(
            name=properties.name,
            capability=f"{properties.major}.{properties.minor}",
            total_bytes=int(total),
            free_bytes=int(free),
            native_bf16=properties.major >= 8,
        )
        for precision, tolerance in _TOLERANCE.items():
            error = _product_error(torch, number, precision)
            if error <= tolerance:
                precisions.append(precision)
            elif precision == "fp32":
                raise RuntimeError(f"a product of matrices is wrong by {error:.1e} in fp32")
        timing = _timing(torch, number, found["name"])
    except Exception as error:  # noqa: BLE001 - of a driver, a kernel or a lack of memory
        found["error"] = _line(error)
    found.setdefault("free_bytes", 0)
    return {**found, "precisions": precisions}, timing


def _product_error(torch: Any, number: int, precision: str) -> float:
    """How far a product is from float64's, relative to its largest element."""
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    chance = torch.Generator().manual_seed(0)
    left, right = (torch.rand(_SIZE, _SIZE, generator=chance) / 16 for _ in range(2))
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    try:
        product = (left.to(number, kind) @ right.to(number, kind)).double().cpu()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    right_one = left.double() @ right.double()
    return float((product - right_one).abs().max() / right_one.abs().max())


def _timing(torch: Any, number: int, name: str) -> Dict[str, Any]:
    """Blocks of products, each timed by the GPU's own clock."""
    with torch.cuda.device(number):
        left = torch.rand(1024, 1024, device=number)

        def block() -> float:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(10):
                left @ left
            end.record()
            end.synchronize()
            return float(start.elapsed_time(end)) / 1000

        until = time.monotonic() + _SECONDS  # its clocks rise first
        while time.monotonic() < until:
            block()
        return timed(name, block, _SECONDS)


def _settings(torch: Any) -> Dict[str, Any]:
    """As torch has them before a program sets any."""
    return {
        "float32_matmul_precision": str(torch.get_float32_matmul_precision())
        if hasattr(torch, "get_float32_matmul_precision")
        else None,
        "matmul_tf32": bool(torch.backends.cuda.matmul.allow_tf32),
        "cudnn_tf32": bool(torch.backends.cudnn.allow_tf32),
        "cudnn_benchmark": bool(torch.backends.cudnn.benchmark),
        "cudnn_deterministic": bool(torch.backends.cudnn.deterministic),
    }


def _nccl(torch: Any) -> Optional[str]:
    try:
        return _joined(torch.cuda.nccl.version())
    except Exception:  # noqa: BLE001 - of a build without it
        return None


def _joined(version: Any) -> Optional[str]:
    if isinstance(version, tuple):
        return ".".join(map(str, version))
    return None if version is None else str(version)


def _line(error: Any) -> str:
    """The first line of what it says, with the kind of error."""
    text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text}"[:400]


if __name__ == "__main__":
    main()
