"""The environment of containers/xla for the tests: made by `make xla-env`, found here.

python -m tests.environments.xla            # make it, unless it is there
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import environments
from tests.environments.light_torch import install_light

REQUIREMENTS = environments.ROOT / "containers" / "xla" / "requirements.txt"
QUICK_TO_COMPILE = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
}
"""Variables of a job that is to compile soon rather than compute fast."""
PROBE = "import torch, torch_xla; print((torch.ones(2, 2, device=torch_xla.device()) * 3).sum())"
BESIDES = ("absl-py>=1", "pyyaml", "requests")
"""What torch_xla imports; it requires these, and not torch."""


def interpreter() -> Path | None:
    """The environment's Python; None where it was not made."""
    return environments.interpreter(environments.folder("xla", REQUIREMENTS))


def install(place: Path) -> None:
    """Install everything but CUDA, and calculate with it."""
    install_light(place, REQUIREMENTS, alone=("torch", "torch_xla"), besides=BESIDES)
    probe = [place / "bin" / "python", "-c", PROBE]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise environments.BuildError(f"{place.name} was made and does not calculate: {reason}")


def main() -> int:
    """Make the environment; returns the exit status."""
    if interpreter() is None:
        place = environments.folder("xla", REQUIREMENTS)
        print(f"Making {place}: a minute or two, once", flush=True)
        try:
            environments.make(place, sys.executable, install)
        except environments.BuildError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
