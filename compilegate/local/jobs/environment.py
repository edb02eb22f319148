"""A job's environment: its variables, built from nothing, and its Python.

A job sees the variables that it would see in a container, plus what this machine needs to reach a
network. AWS credentials, tokens and whatever else is set in the runner's shell stay out.

Its Python is a virtual environment of its own, over the packages of its image: what it installs
ends with it, and the image never changes. What a source's requirements.txt or setup.py names is
installed once, as SageMaker's training toolkit does before each job:

    HOME/environments/DIGEST/    a virtual environment over the image's; `complete` if it is whole

The digest is that of the image's environment and of the files that name what to install.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compilegate.job.names import (
    COMPILE_THREADS_VARIABLE,
    INDUCTOR_CACHE_VARIABLE,
    MACHINE_VARIABLE,
    TRITON_CACHE_VARIABLE,
    VISIBLE_GPUS_VARIABLE,
)
from compilegate.local.errors import StepError
from compilegate.local.home.images import Environment
from compilegate.local.jobs.leases import try_lock
from compilegate.local.jobs.sandbox import Sandbox

_HERE = "127.0.0.1"
_THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
    COMPILE_THREADS_VARIABLE,
)

# What the machine's way to a network or to its devices may hang on.
_INHERITED = (
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "HF_ENDPOINT",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "HF_DATASETS_OFFLINE",
    "LD_LIBRARY_PATH",
    VISIBLE_GPUS_VARIABLE,
    "CUDA_HOME",
    MACHINE_VARIABLE,
    "CC",
    "CXX",
)


# How pip finds packages; its other settings would lead it past the job's environment.
_PIP = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "PIP_CONSTRAINT",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_PROXY",
    "PIP_TRUSTED_HOST",
    "PIP_CONFIG_FILE",
)


def base_environment(
    sandbox: Sandbox, environment: Environment, cores: int, port: int, machine: Mapping[str, str]
) -> dict[str, str]:
    """The variables of a job on `cores` cores; `machine` is the runner's own environment.

    The folders they name are created: the job starts with no home, no temporary files and no
    compile caches, as a fresh container does. `environment` is the job's own, and `port` is where
    its processes meet: torchrun reads its options from variables that begin with PET_.
    """
    home = sandbox.scratch / "home"
    caches = sandbox.scratch / "cache"
    for folder in (home, caches, sandbox.temporary):
        folder.mkdir(parents=True, exist_ok=True)
    path = machine.get("PATH", os.defpath)
    cache = sandbox.inside(caches)
    variables = {
        "PATH": f"{environment.python.parent}{os.pathsep}{path}",
        "VIRTUAL_ENV": str(environment.python.parent.parent),
        "HOME": sandbox.inside(home),
        "TMPDIR": sandbox.inside(sandbox.temporary),
        "LANG": machine.get("LANG", "C.UTF-8"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        # Falsy means --no-compile: what a job installs is used once, and byte code of files that
        # nobody imports takes two thirds of pip's time.
        "PIP_NO_COMPILE": "no",
        "PIP_CACHE_DIR": str(pip_cache(machine)),
        "XDG_CACHE_HOME": cache,
        INDUCTOR_CACHE_VARIABLE: f"{cache}/torchinductor",
        TRITON_CACHE_VARIABLE: f"{cache}/triton",
        "HF_HOME": str(hugging_face_cache(machine)),
        "TOKENIZERS_PARALLELISM": "false",
        "MASTER_ADDR": _HERE,
        "MASTER_PORT": str(port),
        "PET_MASTER_ADDR": _HERE,
        "PET_MASTER_PORT": str(port),
    }
    variables.update({name: str(cores) for name in _THREAD_COUNTS})
    variables.update({n: machine[n] for n in (*_INHERITED, *_PIP) if n in machine})
    own_settings = _pip_settings()
    if own_settings is not None:
        variables.setdefault("PIP_CONFIG_FILE", str(own_settings))
    return variables


def hugging_face_cache(machine: Mapping[str, str]) -> Path:
    """What jobs share with this machine on purpose: models and data sets are large."""
    return Path(machine.get("HF_HOME", str(Path.home() / ".cache" / "huggingface")))


def pip_cache(machine: Mapping[str, str]) -> Path:
    """What the pip of jobs has downloaded and built before.

    Theirs alone unless PIP_CACHE_DIR says otherwise: what a foreign job puts there must not be
    installed by this machine's user.
    """
    caches = Path(machine.get("XDG_CACHE_HOME", str(Path.home() / ".cache")))
    return Path(machine.get("PIP_CACHE_DIR", str(caches / "compilegate" / "pip")))


def _pip_settings() -> Path | None:
    """The person's own settings of pip, which may name the only index that can be reached."""
    home = Path.home()
    found = (home / ".config/pip/pip.conf", home / ".pip/pip.conf")
    return next((path for path in found if path.is_file()), None)


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
_PIP_SCRIPT = "import sys; from pip._internal.cli.main import main; sys.exit(main())\n"
_NAMES_PYTHON = re.compile(r"#!\s*/\S*/python[0-9.]*(\s.*)?")
_SHEBANG_LIMIT = 120
_SCRIPT_BYTES = 1 << 18


@dataclass(frozen=True)
class ImagePython:
    """What a virtual environment over an image has to know of the image's interpreter."""

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
        answer = json.loads(end.stdout.splitlines()[-1])
        return ImagePython(
            base=Path(answer["base"]),
            prefixes=tuple(map(Path, answer["prefixes"])),
            version=answer["version"],
            sites=(*answer["user_sites"], *answer["sites"]),
            has_system_packages=answer["has_system_packages"],
            scripts=Path(answer["scripts"]),
            elsewhere=tuple(map(Path, answer["elsewhere"])),
            pip=answer["pip"],
        )
    except (OSError, subprocess.CalledProcessError, ValueError, LookupError) as error:
        raise StepError(
            f"the image's Python {python} does not say where its packages are: {error}"
        ) from error


def make_environment(
    folder: Path, seen_at: str, image: ImagePython, below: Path | None = None
) -> Environment:
    """A virtual environment in `folder`, which the job finds at `seen_at`, without packages.

    Behind its own packages it has those of another one that this function has made, `below`, and
    behind these the image's.
    """
    scripts, packages = folder / "bin", _packages_of(folder, image)
    scripts.mkdir(parents=True)
    packages.mkdir(parents=True)
    python, version = f"{seen_at}/bin/python", image.version
    (scripts / "python").symlink_to(image.base)
    for name in ("python3", f"python{version}"):
        (scripts / name).symlink_to("python")
    (folder / "pyvenv.cfg").write_text(
        f"home = {image.base.parent}\n"
        f"include-system-site-packages = {str(image.has_system_packages).lower()}\n"
        f"version = {version}\n",
        encoding="utf-8",
    )
    behind = image.sites if below is None else (str(_packages_of(below, image)), *image.sites)
    lines = [f"import site; site.addsitedir({path!r})" for path in behind]
    lines += [] if image.pip is None else [image.pip]
    (packages / "behind.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for source in (image.scripts,) if below is None else (below / "bin", image.scripts):
        for name, body in _python_scripts(source):
            _write_script(scripts / name, python, body)
    for name in ("pip", "pip3", f"pip{version}"):
        _write_script(scripts / name, python, _PIP_SCRIPT)
    return Environment(Path(python), here=False, interpreter=python)


def _packages_of(folder: Path, image: ImagePython) -> Path:
    return folder / "lib" / f"python{image.version}" / "site-packages"


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


_REQUIREMENTS = "requirements.txt"
_PACKAGE = "setup.py"
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Wanted:
    """What pip has to do for a source."""

    arguments: tuple[str, ...]
    """pip's, in the source's folder."""
    digest: str
    files: str
    """The files that name it."""


def wanted_by(source: Path | None, image: Environment) -> Wanted | None:
    """What a source needs beyond what the image's environment has; None if that is nothing."""
    if source is None:
        return None
    requirements = source / _REQUIREMENTS
    if (source / _PACKAGE).is_file():
        listed = requirements.is_file()
        arguments = ("install", "--upgrade", ".", *(("-r", _REQUIREMENTS) if listed else ()))
        files = f"{_PACKAGE} and {_REQUIREMENTS}" if listed else _PACKAGE
        return Wanted(arguments, _digest(image, _files(source)), files)
    if not requirements.is_file() or image.first_unmet(requirements) is None:
        return None
    # A line that is no plain requirement may lead to any other file of the source.
    deciding = _files(source) if _leads_on(requirements) else [(_REQUIREMENTS, requirements)]
    return Wanted(("install", "-r", _REQUIREMENTS), _digest(image, deciding), _REQUIREMENTS)


@contextmanager
def one_at_a_time(lock: Path, given_up: Callable[[], bool]) -> Iterator[bool]:
    """Hold a lock over processes; yields False when `given_up` says so before it is free."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("wb") as file:
        while not given_up():
            if try_lock(file, fcntl.LOCK_EX):
                yield True
                return
            time.sleep(_POLL_SECONDS)
    yield False


def _leads_on(requirements: Path) -> bool:
    lines = requirements.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.strip()[:1] in {"-", ".", "/"} or "/" in line.split("#")[0] for line in lines)


def _files(source: Path) -> list[tuple[str, Path]]:
    found = sorted(path for path in source.rglob("*") if path.is_file())
    return [(path.relative_to(source).as_posix(), path) for path in found]


def _digest(image: Environment, files: list[tuple[str, Path]]) -> str:
    digest = hashlib.sha256(f"{image.identity}\n".encode())
    for name, path in files:
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:24]
