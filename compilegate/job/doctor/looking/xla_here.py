"""What torch_xla is and can do here, printed as JSON: a program, since its import changes how a
process computes, and may crash.

    python -m compilegate.job.doctor.looking.xla_here
"""

from __future__ import annotations

import importlib
import json
import os
from typing import Any, Dict

from compilegate.job.compilers.training_compiler import CONFIGURED


def main() -> None:
    """Print the fields of `facts.Xla` but its version."""
    print(json.dumps(_described()), flush=True)


def _described() -> Dict[str, Any]:
    try:
        xm = importlib.import_module("torch_xla.core.xla_model")
        configured = os.environ.get(CONFIGURED) == "1"
        device = xm.xla_device()
        return {"configured": configured, "hardware": str(xm.xla_device_hw(device))}
    except Exception as error:  # noqa: BLE001 - of a library that does not load, or finds no device
        text = (str(error).strip().splitlines() or [""])[0]
        return {"error": f"{type(error).__name__}: {text}"[:400]}


if __name__ == "__main__":
    main()
