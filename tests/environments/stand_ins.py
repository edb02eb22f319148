"""Empty shared libraries for those of CUDA that a build of torch is linked with.

The index's torch for Linux is built for GPUs. Without one it calls nothing of CUDA's 4 GB, but its
loader wants every library it names, with every symbol, under the right symbol version. Here each is
one function that answers "no device". For tests on a CPU only.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

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
