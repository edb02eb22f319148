"""torch without CUDA: for tests on a CPU, which call nothing of it.

The index's torch for Linux is built for GPUs. Of the gigabytes that come with it, empty libraries
stand in for CUDA's own, and holes for the kernels in torch's.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from tests.environments import pip_install
from tests.environments.stand_ins import write_stand_ins

_CUDA = re.compile(r"^Requires-Dist: (nvidia-|triton|cuda-)")
_KERNELS = re.compile(r"\.nv_fatbin\s+\S+\s+[0-9a-f]+\s+([0-9a-f]+)\s+([0-9a-f]+)")


def install_light(
    place: Path,
    requirements: Path,
    *,
    alone: Sequence[str] = ("torch",),
    besides: Sequence[str] = (),
) -> None:
    """Install a requirements file into an environment; needs gcc and binutils.

    `alone` are installed without what they require, torch among them, and `besides` is what they do
    require. Raises BuildError.
    """
    wanted = _lines(requirements)
    bare = [line for line in wanted if Requirement(line).name in alone]
    # Not kept by pip: the wheel is as large as all of the environment.
    pip_install(place, ["--no-cache-dir", "--no-deps", *bare])
    (packages,) = place.glob("lib/python3*/site-packages")
    libraries = packages / "torch" / "lib"
    for path in libraries.glob("*.so"):
        for offset, size in _kernels(path):
            _leave_out(path, offset, size)
    write_stand_ins(libraries)
    required = _leave_out_cuda(packages)
    pip_install(place, [*(line for line in wanted if line not in bare), *required, *besides])


def _lines(requirements: Path) -> list[str]:
    lines = [
        re.split(r"\s#", line)[0].strip()
        for line in requirements.read_text(encoding="utf-8").splitlines()
    ]
    return [line for line in lines if line and not line.startswith("#")]


def _leave_out_cuda(packages: Path) -> list[str]:
    """Take the CUDA libraries out of what torch requires; returns what it requires besides."""
    (metadata,) = packages.glob("torch-*.dist-info/METADATA")
    lines = metadata.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not _CUDA.match(line)]
    metadata.write_text("".join(kept), encoding="utf-8")
    stated = [
        line.removeprefix("Requires-Dist: ").strip()
        for line in kept
        if line.startswith("Requires-Dist: ")
    ]
    return [line for line in stated if "extra ==" not in line]


def _kernels(library: Path) -> Iterator[tuple[int, int]]:
    """(offset, size) of the sections with compiled kernels, which only a GPU's driver reads."""
    sections = subprocess.run(
        ["readelf", "--section-headers", "--wide", library],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for found in _KERNELS.finditer(sections):
        yield int(found[1], 16), int(found[2], 16)


def _leave_out(library: Path, offset: int, size: int) -> None:
    """Write the file anew with a hole there: it is as long as before, and takes no space."""
    part = library.with_name(f"{library.name}.part")
    length = library.stat().st_size
    with library.open("rb") as source, part.open("wb") as target:
        _copy(source.fileno(), target.fileno(), 0, offset)
        _copy(source.fileno(), target.fileno(), offset + size, length)
    part.replace(library)


def _copy(source: int, target: int, begin: int, end: int) -> None:
    while begin < end:
        begin += os.copy_file_range(source, target, end - begin, begin, begin)
