"""Makes the environment: torch without the CUDA libraries that a test on a CPU never calls."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement

from tests.xla_environment import REQUIREMENTS, folder
from tests.xla_environment.stand_ins import write_stand_ins

ALONE = ("torch", "torch_xla")
"""Installed without what they require: of torch's requirements nearly all are CUDA libraries."""
CUDA = re.compile(r"^Requires-Dist: (nvidia-|triton|cuda-)")
PROBE = "import torch, torch_xla; print((torch.ones(2, 2, device=torch_xla.device()) * 3).sum())"


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status."""
    place = folder()
    if (place / "complete").is_file():
        return 0
    print(f"Making {place}: a minute or two, once", flush=True)
    shutil.rmtree(place, ignore_errors=True)  # an earlier build was broken off
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    if "--whole" in arguments:
        install(place, ["--requirement", str(REQUIREMENTS)])
    else:
        install_light(place)
    done = subprocess.run([place / "bin" / "python", "-c", PROBE], check=False)
    if done.returncode == 0:
        (place / "complete").touch()
    return done.returncode


def install_light(place: Path) -> None:
    """Everything but the CUDA libraries, for which empty ones stand in."""
    lines = [
        re.split(r"\s#", line)[0].strip()
        for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    ]
    wanted = [line for line in lines if line and not line.startswith("#")]
    alone = [line for line in wanted if Requirement(line).name in ALONE]
    install(place, ["--no-deps", *alone])
    (packages,) = place.glob("lib/python3*/site-packages")
    write_stand_ins(packages / "torch" / "lib")
    required = leave_out_cuda(packages)
    # torch_xla's own; it requires them, and not torch.
    required += ["absl-py>=1", "pyyaml", "requests"]
    install(place, [*(line for line in wanted if line not in alone), *required])


def leave_out_cuda(packages: Path) -> list[str]:
    """Take the CUDA libraries out of what torch requires; returns what it requires besides."""
    (metadata,) = packages.glob("torch-*.dist-info/METADATA")
    lines = metadata.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not CUDA.match(line)]
    metadata.write_text("".join(kept), encoding="utf-8")
    stated = [
        line.removeprefix("Requires-Dist: ").strip()
        for line in kept
        if line.startswith("Requires-Dist: ")
    ]
    return [line for line in stated if "extra ==" not in line]


def install(place: Path, what: Sequence[str]) -> None:
    """Run the environment's pip."""
    options = ["--quiet", "--quiet", "--disable-pip-version-check", "--no-input"]
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", *options]
    subprocess.run([*pip, "--only-binary=:all:", *what], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
