"""torch without CUDA, for tests on a CPU.

The index's torch for Linux is built for GPUs. Of the gigabytes that come with it, empty libraries
stand in for CUDA's own, and holes for the kernels in torch's. Without a GPU torch calls nothing of
CUDA, but its loader wants every library it names, with every symbol, under the right symbol
version. Here each is one function that answers "no device".
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from tests.environments import pip_install

_REQUIRES_CUDA = re.compile(r"^Requires-Dist: (nvidia-|triton|cuda-)")
_KERNELS = re.compile(r"\.nv_fatbin\s+\S+\s+[0-9a-f]+\s+([0-9a-f]+)\s+([0-9a-f]+)")
Symbols = dict[str, set[str]]
"""Names by symbol version; "" for those without one."""

NO_DEVICE = 100  # cudaErrorNoDevice
_CUDA = re.compile(r"lib(cu|nccl|nv)")
_BUNDLED = re.compile(r"lib\w+-[0-9a-f]{8}")
_ONLY_WITH_A_GPU = ("libtorch_cuda_linalg.so", "libcaffe2_nvrtc.so")
_GIVES_TEXT = re.compile(r"(Error|Status)(String|Name)$")
_LIBRARY_OF = (
    ("cublasLt", "libcublasLt"),
    ("cublas", "libcublas"),
    ("cudnn", "libcudnn"),
    ("cufft", "libcufft"),
    ("curand", "libcurand"),
    ("cusparseLt", "libcusparseLt"),
    ("cusparse", "libcusparse"),
    ("p?nccl", "libnccl"),
    (r"(_Z\d*)?.*nvshmem", "libnvshmem_host"),
    ("cuFile", "libcufile"),
    ("cupti", "libcupti"),
    ("nvrtc", "libnvrtc"),
    ("(__)?cuda", "libcudart"),
)
"""How the symbols of a library begin, first match first: most have no version that tells."""


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
    kept = [line for line in lines if not _REQUIRES_CUDA.match(line)]
    metadata.write_text("".join(kept), encoding="utf-8")
    stated = [
        line.removeprefix("Requires-Dist: ").strip()
        for line in kept
        if line.startswith("Requires-Dist: ")
    ]
    return [line for line in stated if "extra ==" not in line]


def _kernels(library: Path) -> Iterator[tuple[int, int]]:
    """(offset, size) of the sections with compiled kernels, which only a GPU's driver reads."""
    for found in _KERNELS.finditer(_output("readelf", "--section-headers", "--wide", library)):
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


def write_stand_ins(libraries: Path) -> None:
    """Write what is missing beside torch's own libraries; needs gcc and binutils."""
    own = [
        path
        for path in libraries.glob("*.so*")
        if path.name not in _ONLY_WITH_A_GPU and not _CUDA.match(path.name)
    ]
    headers = {path: _output("objdump", "-p", path) for path in own}
    needed = {
        name
        for text in headers.values()
        for name in re.findall(r"NEEDED\s+(\S+)", text)
        if _CUDA.match(name) and not _BUNDLED.match(name)
    } - {path.name for path in libraries.glob("*.so*")}
    symbols = _missing_symbols(own, needed, _library_of_version(headers.values(), needed))
    for name in sorted(needed):
        _write_library(libraries / name, symbols[name])


def _library_of_version(headers: Iterable[str], needed: set[str]) -> dict[str, str]:
    """The library of each symbol version, as the headers' version references give it."""
    found: dict[str, str] = {}
    for text in headers:
        library = ""
        for line in text.splitlines():
            if begun := re.match(r"\s+required from (\S+):", line):
                library = begun[1]
            elif (version := re.match(r"\s+0x\w+ 0x\w+ \d+ (\S+)", line)) and library in needed:
                found[version[1]] = library
    return found


def _missing_symbols(
    own: list[Path], needed: set[str], library_of_version: dict[str, str]
) -> dict[str, Symbols]:
    """By library, what torch's own take from it."""
    by_stem = {name.split(".so")[0]: name for name in needed}
    if "libcublas" in by_stem:
        by_stem.setdefault("libcublasLt", by_stem["libcublas"])
    defined = {name for path in own for name, _ in _dynamic_symbols(path, "--defined-only")}
    found: dict[str, Symbols] = defaultdict(lambda: defaultdict(set))
    for path in own:
        for name, version in _dynamic_symbols(path, "--undefined-only"):
            if name in defined:
                continue
            library = library_of_version.get(version)
            if library is None and not version:
                stem = next((lib for begin, lib in _LIBRARY_OF if re.match(begin, name)), "")
                library = by_stem.get(stem)
            if library is not None:
                found[library][version].add(name)
    return found


def _dynamic_symbols(path: Path, which: str) -> list[tuple[str, str]]:
    """(name, version) of the symbols that a library defines, or does not."""
    names = [line.split()[-1] for line in _output("nm", "-D", which, path).splitlines() if line]
    return [
        (name, version.lstrip("@")) for name, _, version in (each.partition("@") for each in names)
    ]


def _write_library(path: Path, symbols: Symbols) -> None:
    functions = "".join(
        f'const char *{name}(void) {{ return "no CUDA in this environment"; }}\n'
        if _GIVES_TEXT.search(name)
        else f"int {name}(void) {{ return {NO_DEVICE}; }}\n"
        for names in symbols.values()
        for name in sorted(names)
    )
    versions = "".join(
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(names))} }};\n"
        for version, names in symbols.items()
        if version
    )
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder) / "library.c", Path(folder) / "versions.map"
        source.write_text(functions or "int none_is_called;\n", encoding="utf-8")
        script.write_text(versions, encoding="utf-8")
        options = ["-w", "-fno-builtin", "-shared", "-fPIC", f"-Wl,-soname,{path.name}"]
        if versions:
            options.append(f"-Wl,--version-script={script}")
        subprocess.run(["gcc", *options, "-o", path, source], check=True)


def _output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
