"""Makes the environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.environments import BuildError, interpreter, make, pip_install
from tests.environments.light_torch import install_light
from tests.xla_environment import REQUIREMENTS, folder

PROBE = "import torch, torch_xla; print((torch.ones(2, 2, device=torch_xla.device()) * 3).sum())"
BESIDES = ("absl-py>=1", "pyyaml", "requests")
"""What torch_xla imports; it requires these, and not torch."""


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status."""
    place = folder()
    if interpreter(place) is not None:
        return 0
    print(f"Making {place}: a minute or two, once", flush=True)
    try:
        make(place, sys.executable, install_whole if "--whole" in arguments else install)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def install(place: Path) -> None:
    """Everything but CUDA."""
    install_light(place, REQUIREMENTS, alone=("torch", "torch_xla"), besides=BESIDES)
    _probe(place)


def install_whole(place: Path) -> None:
    """Everything."""
    pip_install(place, ["--requirement", str(REQUIREMENTS)])
    _probe(place)


def _probe(place: Path) -> None:
    done = subprocess.run(
        [place / "bin" / "python", "-c", PROBE], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise BuildError(f"{place.name} was made and does not calculate: {reason}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
