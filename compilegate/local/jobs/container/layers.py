"""A layer over an image's environment, which a job may change: what pip installs lands in it.

A layer is a virtual environment without packages. Behind its own it has the packages of layers
that are already made, and behind these the image's. The image's environment never changes, and
jobs that run at one moment do not meet.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from compilegate.local.errors import StepError
from compilegate.local.home.images import Environment

_ASK = """
import importlib.util as find, json, os, site, sys, sysconfig
elsewhere = [p for p in sys.path if os.path.isdir(p)]
for name, module in list(sys.modules.items()):
    if name.startswith("__editable__"):
        elsewhere += [os.path.dirname(p) for p in getattr(module, "MAPPING", {}).values()]
pip = None
if find.find_spec("pip") is None and find.find_spec("ensurepip") is not None:
    import ensurepip, glob
    bundled = os.path.join(os.path.dirname(ensurepip.__file__), "_bundled")
    folders = [bundled, sysconfig.get_config_var("WHEEL_PKG_DIR") or bundled]
    pip = next((w for f in folders for w in sorted(glob.glob(os.path.join(f, "pip-*.whl")))), None)
is_venv = sys.prefix != sys.base_prefix
settings = open(os.path.join(sys.prefix, "pyvenv.cfg")).read() if is_venv else ""
print(json.dumps({
    "base": getattr(sys, "_base_executable", sys.executable),
    "prefixes": [sys.prefix, sys.base_prefix],
    "version": "%d.%d" % sys.version_info[:2],
    "sites": site.getsitepackages() if is_venv else [],
    "user_sites": [site.getusersitepackages()] if site.ENABLE_USER_SITE else [],
    "has_system_packages": not is_venv or "system-site-packages = true" in settings.lower(),
    "scripts": sysconfig.get_path("scripts"),
    "elsewhere": elsewhere,
    "pip": pip,
}))
"""
_PIP = "import sys; from pip._internal.cli.main import main; sys.exit(main())\n"
_NAMES_PYTHON = re.compile(r"#!\s*/\S*/python[0-9.]*(\s.*)?")
_SHEBANG_LIMIT = 120
_SCRIPT_BYTES = 1 << 18


@dataclass(frozen=True)
class ImagePython:
    """What a layer over an interpreter has to know of it."""

    base: Path
    """The interpreter itself, not a virtual environment's link to it."""
    prefixes: tuple[Path, ...]
    version: str
    sites: tuple[str, ...]
    """Where its packages are that another interpreter on the same base would not find."""
    has_system_packages: bool
    scripts: Path
    elsewhere: tuple[Path, ...]
    """All folders that it imports from: an editable install may lie anywhere."""
    pip: str | None
    """The wheel that its own ensurepip holds, where pip is not installed."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """All folders that its programs need."""
        sites = map(Path, self.sites)
        return (*self.prefixes, *sites, self.base.parent.parent, *self.elsewhere)


def image_python(environment: Environment) -> ImagePython:
    """Ask the interpreter of an image. Raises StepError when it does not answer."""
    return _asked(environment.python, environment.here)


@functools.lru_cache(maxsize=64)
def _asked(python: Path, is_here: bool) -> ImagePython:
    # Packages in the user's home belong to the running interpreter's environment alone.
    options = ("-E",) if is_here else ("-E", "-s")
    try:
        end = subprocess.run([str(python), *options, "-c", _ASK], capture_output=True, check=True)
        said = json.loads(end.stdout.splitlines()[-1])
        return ImagePython(
            base=Path(said["base"]),
            prefixes=tuple(map(Path, said["prefixes"])),
            version=said["version"],
            sites=(*said["user_sites"], *said["sites"]),
            has_system_packages=said["has_system_packages"],
            scripts=Path(said["scripts"]),
            elsewhere=tuple(map(Path, said["elsewhere"])),
            pip=said["pip"],
        )
    except (OSError, subprocess.CalledProcessError, ValueError, LookupError) as error:
        raise StepError(
            f"the image's Python {python} does not say where its packages are: {error}"
        ) from error


def make_layer(
    folder: Path, seen_at: str, image: ImagePython, below: Sequence[Path] = ()
) -> Environment:
    """A layer in `folder`, which the job finds at `seen_at`; its packages come before `below`'s.

    `below` are folders that `keep_layer` has made.
    """
    scripts = folder / "bin"
    scripts.mkdir(parents=True)
    python = f"{seen_at}/bin/python"
    version = image.version
    (scripts / "python").symlink_to(image.base)
    for name in ("python3", f"python{version}"):
        (scripts / name).symlink_to("python")
    (folder / "pyvenv.cfg").write_text(
        f"home = {image.base.parent}\n"
        f"include-system-site-packages = {str(image.has_system_packages).lower()}\n"
        f"version = {version}\n",
        encoding="utf-8",
    )
    packages = packages_of(folder, image)
    packages.mkdir(parents=True)
    behind = [str(layer / "packages") for layer in below]
    behind += image.sites
    lines = [f"import site; site.addsitedir({path!r})" for path in behind]
    lines += [] if image.pip is None else [image.pip]
    (packages / "behind_this_layer.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for source in (*(layer / "bin" for layer in reversed(below)), image.scripts):
        for name, body in _python_scripts(source):
            _write_script(scripts / name, python, body)
    for name in ("pip", "pip3", f"pip{version}"):
        _write_script(scripts / name, python, _PIP)
    return Environment(Path(python), here=False, interpreter=python)


def packages_of(folder: Path, image: ImagePython) -> Path:
    """Where a layer keeps its own packages."""
    return folder / "lib" / f"python{image.version}" / "site-packages"


def keep_layer(layer: Path, image: ImagePython, target: Path) -> None:
    """Move what was installed into a layer to `target`, for layers over it."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    packages = packages_of(layer, image)
    (packages / "behind_this_layer.pth").unlink()
    shutil.move(packages, target / "packages")
    shutil.move(layer / "bin", target / "bin")


def _write_script(path: Path, python: str, body: str) -> None:
    if path.is_symlink() or path.exists():
        return
    if " " in python or len(python) > _SHEBANG_LIMIT:  # what the kernel cannot read, a shell can
        first = f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''"
    else:
        first = f"#!{python}"
    path.write_text(f"{first}\n{body}", encoding="utf-8")
    path.chmod(0o755)


def _python_scripts(folder: Path) -> Iterator[tuple[str, str]]:
    """The names and bodies of the scripts that a folder has for its own interpreter."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            if not entry.is_file() or entry.stat().st_size > _SCRIPT_BYTES:
                continue
            with Path(entry.path).open("rb") as file:
                if file.read(2) != b"#!":
                    continue
                text = (b"#!" + file.read()).decode()
        except (OSError, UnicodeDecodeError):
            continue
        first, _, body = text.partition("\n")
        if first == "#!/bin/sh" and body.startswith("'''exec' "):
            _, body = body.split("\n' '''\n", 1) if "\n' '''\n" in body else ("", "")
        elif not _NAMES_PYTHON.fullmatch(first):
            continue
        yield entry.name, body
