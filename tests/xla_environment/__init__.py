"""The environment of containers/xla for the tests: made by `make xla-env`, found here.

python -m tests.xla_environment            # make it, unless it is there
python -m tests.xla_environment --whole    # with torch's CUDA libraries, 7 GB
"""

from __future__ import annotations

from pathlib import Path

from tests import environments

REQUIREMENTS = environments.ROOT / "containers" / "xla" / "requirements.txt"
QUICK_TO_COMPILE = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
}
"""Variables of a job that is to compile soon rather than compute fast."""


def folder() -> Path:
    """Where it is, or would be."""
    return environments.folder("xla", REQUIREMENTS)


def interpreter() -> Path | None:
    """Its Python; None where it was not made."""
    return environments.interpreter(folder())
