"""A base image made of this machine's own Python: AWS's images are many gigabytes and need a login.

It holds the interpreter with pip, a shell, the few programs that a Dockerfile calls, their shared
libraries and the certificates. On top of it `with_torch` puts a distribution of torch that has a
name and a version and nothing else, so that a build shows whether torch stays as it was.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

PROGRAMS = ("sh", "chmod", "uname")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
LEFT_OUT = {"site-packages", "test", "tests", "idlelib", "tkinter", "__pycache__", "ensurepip"}
CONFIGURATION = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}


def make_base(docker: list[str], image: str) -> None:
    """Import the base into the engine under a name."""
    path = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    imported = subprocess.Popen(
        [*docker, "import", "--change", f"ENV {path}", "-", image],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert imported.stdin is not None
    with tarfile.open(fileobj=imported.stdin, mode="w|") as archive:
        _fill(archive)
    imported.stdin.close()
    assert imported.wait() == 0, "docker import failed"


def with_torch(docker: list[str], base: str, version: str) -> str:
    """The name of an image that is the base with a torch of this version."""
    image = f"{base}-torch-{version.replace('+', '-')}"
    metadata = f"Name: torch\\nVersion: {version}\\n"
    script = (
        "import pathlib, sysconfig; "
        f"folder = pathlib.Path(sysconfig.get_path('purelib'), 'torch-{version}.dist-info'); "
        "folder.mkdir(); "
        f"(folder / 'METADATA').write_text('{metadata}'); "
        "(folder / 'RECORD').write_text('')"
    )
    subprocess.run(
        [*docker, "build", "--quiet", "--tag", image, "-"],
        input=f'FROM {base}\nRUN python -c "{script}"\n',
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return image


def _fill(archive: tarfile.TarFile) -> None:
    prefix = Path(sys.base_prefix)
    interpreter = Path(sys.executable).resolve()
    library = prefix / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    files = [interpreter, CERTIFICATES, *_library(library), *_pip(library)]
    files += [Path(shutil.which(name) or name) for name in PROGRAMS]
    files += _needed([file for file in files if _is_binary(file)])
    for folder in ("tmp", "root", "proc", "sys", "dev", "etc", "usr/local/bin"):
        entry = tarfile.TarInfo(folder)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
        archive.addfile(entry)
    for file in dict.fromkeys(files):
        # Under the name that it is looked for by, and as the file that it stands for.
        archive.add(file.resolve(), arcname=str(file).lstrip("/"), recursive=False)
    for name, text in CONFIGURATION.items():
        entry = tarfile.TarInfo(name)
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text.encode()))
    for name in ("usr/local/bin/python", "usr/local/bin/python3"):
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = tarfile.SYMTYPE, str(interpreter)
        archive.addfile(entry)
    archive.add(Path("/bin/sh").resolve(), arcname="bin/sh")


def _library(folder: Path) -> Iterable[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and not LEFT_OUT.intersection(path.relative_to(folder).parts)
    ]


def _pip(library: Path) -> Iterable[Path]:
    packages = library / "site-packages"
    found = [path for path in packages.glob("pip*/**/*") if path.is_file()]
    assert found, f"{packages} has no pip"
    return [path for path in found if "__pycache__" not in path.parts]


def _is_binary(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) == b"\x7fELF"


def _needed(binaries: list[Path]) -> list[Path]:
    """The shared libraries that programs and modules are linked to, and the loader."""
    listed = subprocess.run(
        ["ldd", *map(str, binaries)], capture_output=True, text=True, check=False
    ).stdout
    named = re.findall(r"(?:=> )?(/[^\s:]+)(?= \(0x)", listed)
    names = sorted({Path(name) for name in named})
    # What the resolver of host names loads when it is asked, and what wheels expect of a system.
    unlinked = (
        *("libnss_*.so.2", "libresolv.so.2", "libstdc++.so.6", "libgcc_s.so.1"),
        *("libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1", "libutil.so.1"),
    )
    folders = {name.parent for name in names}
    return [
        *names,
        *(path for folder in folders for name in unlinked for path in folder.glob(name)),
    ]
