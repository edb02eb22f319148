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

import functools
import hashlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from compilegate.job.contract import (
    COMPILE_THREADS_VARIABLE,
    INDUCTOR_CACHE_VARIABLE,
    MACHINE_VARIABLE,
    TRITON_CACHE_VARIABLE,
    VISIBLE_GPUS_VARIABLE,
)
from compilegate.job.files import file_digest, folder_digest, try_lock
from compilegate.local.errors import StepError
from compilegate.local.home.images import Environment, first_unmet
from compilegate.local.jobs.sandbox import Sandbox

_HERE = "127.0.0.1"
_THREADED = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "RAYON")
# What the machine's way to a network or to its devices may hang on, and how pip finds packages:
# its other settings would lead it past the job's environment.
_INHERITED = re.compile(
    r"(https?|no|all)_proxy|(HTTPS?|NO|ALL)_PROXY|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE|"
    r"(HF_HUB|TRANSFORMERS|HF_DATASETS)_OFFLINE|HF_ENDPOINT|LD_LIBRARY_PATH|CUDA_HOME|CC|CXX|"
    rf"{VISIBLE_GPUS_VARIABLE}|{MACHINE_VARIABLE}|PIP_(INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|"
    r"NO_INDEX|CONSTRAINT|CERT|CLIENT_CERT|PROXY|TRUSTED_HOST|CONFIG_FILE)"
)

# What could lead a job to an account: kept out, wherever it comes from, unless --env passes it.
_CHOOSES_ACCOUNT = re.compile(
    r"AWS_((ENDPOINT_URL|CONTAINER_|SSO_|WEB_IDENTITY_|ROLE_|EC2_METADATA_).*"
    r"|ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|SECURITY_TOKEN|CREDENTIAL_EXPIRATION"
    r"|PROFILE|DEFAULT_PROFILE|CONFIG_FILE|SHARED_CREDENTIALS_FILE"
    r"|IGNORE_CONFIGURED_ENDPOINT_URLS)"
)


@dataclass(frozen=True)
class JobVariables:
    """What an execution adds to the environment of each of its jobs."""

    aws: Mapping[str, str] = field(default_factory=dict)
    """The endpoint here and its key; they win over what the definition says."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Variables from --env, which override all others."""

    def merged(self, base: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """A job's environment; `own` is what its request and its container's contract say."""
        harmless = {
            name: value for name, value in own.items() if not _CHOOSES_ACCOUNT.fullmatch(name)
        }
        merged = {**base, **harmless}
        for name, value in self.aws.items():
            if _CHOOSES_ACCOUNT.fullmatch(name) or name not in merged:
                merged[name] = value
        if self.aws:
            _bypass_proxies(merged)
        return {**merged, **self.given}


def _bypass_proxies(variables: dict[str, str]) -> None:
    """Through a proxy this machine's own address would be the proxy's."""
    for name in ("no_proxy", "NO_PROXY"):
        hosts = variables.get(name, "")
        if _HERE not in hosts.split(","):
            variables[name] = f"{hosts},{_HERE}" if hosts else _HERE


def base_environment(sandbox: Sandbox, python: Path, cores: int, port: int) -> dict[str, str]:
    """The variables of a job on `cores` cores.

    The folders they name are created: the job starts with no home, no temporary files and no
    compile caches, as a fresh container does. `python` is the job's own, and `port` is where its
    processes meet: torchrun reads its options from variables that begin with PET_.
    """
    home, caches = sandbox.scratch / "home", sandbox.scratch / "cache"
    for folder in (home, caches, sandbox.temporary):
        folder.mkdir(parents=True, exist_ok=True)
    cache = sandbox.inside(caches)
    # The person's own settings of pip may name the only index that can be reached.
    settings = (Path.home() / name for name in (".config/pip/pip.conf", ".pip/pip.conf"))
    found = next((str(path) for path in settings if path.is_file()), None)
    return {
        "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "VIRTUAL_ENV": str(python.parent.parent),
        "HOME": sandbox.inside(home),
        "TMPDIR": sandbox.inside(sandbox.temporary),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        # Falsy means --no-compile: what a job installs is used once, and byte code of files that
        # nobody imports takes two thirds of pip's time.
        "PIP_NO_COMPILE": "no",
        "XDG_CACHE_HOME": cache,
        INDUCTOR_CACHE_VARIABLE: f"{cache}/torchinductor",
        TRITON_CACHE_VARIABLE: f"{cache}/triton",
        **{name: str(path) for name, path in shared_caches().items()},
        "TOKENIZERS_PARALLELISM": "false",
        **{f"{prefix}MASTER_ADDR": _HERE for prefix in ("", "PET_")},
        **{f"{prefix}MASTER_PORT": str(port) for prefix in ("", "PET_")},
        **{f"{library}_NUM_THREADS": str(cores) for library in _THREADED},
        "VECLIB_MAXIMUM_THREADS": str(cores),
        COMPILE_THREADS_VARIABLE: str(cores),
        **({} if found is None else {"PIP_CONFIG_FILE": found}),
        **{name: value for name, value in os.environ.items() if _INHERITED.fullmatch(name)},
    }


def shared_caches() -> dict[str, Path]:
    """Caches that jobs share, by variable: with this machine Hugging Face's models and data
    sets, because they are large; among themselves what pip has downloaded and built, because
    what a foreign job puts there must not be installed by this machine's user."""
    caches = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    defaults = {
        "HF_HOME": Path.home() / ".cache/huggingface",
        "PIP_CACHE_DIR": caches / "compilegate/pip",
    }
    return {name: Path(os.environ.get(name, path)) for name, path in defaults.items()}


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
base = getattr(sys, "_base_executable", sys.executable)
sites = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
sites += site.getsitepackages() if is_venv else []
base_folder = os.path.dirname(os.path.dirname(base))
print(json.dumps({
    "base": base,
    "version": "%d.%d" % sys.version_info[:2],
    "sites": sites,
    "has_system_packages": not is_venv or "system-site-packages = true" in settings.lower(),
    "scripts": sysconfig.get_path("scripts"),
    "folders": [sys.prefix, sys.base_prefix, *sites, base_folder, *elsewhere],
    "pip": pip,
}))
"""
_PIP_SCRIPT = "import sys; from pip._internal.cli.main import main; sys.exit(main())\n"
_SHEBANG = re.compile(r"#!\s*/\S*/python[0-9.]*([ \t].*)?\n|#!/bin/sh\n'''exec' .*\n' '''\n")
"""How the scripts of an interpreter begin: the second way where the kernel cannot read its path,
which is long or has spaces."""
_SCRIPT_BYTES = 1 << 18


@dataclass(frozen=True)
class ImagePython:
    """What a virtual environment over an image has to know of the image's interpreter."""

    base: str
    """The interpreter itself, not a virtual environment's link to it."""
    version: str
    sites: list[str]
    """Package folders that another interpreter on the same base would not find."""
    has_system_packages: bool
    scripts: str
    folders: list[str]
    """All folders that its programs need: an editable install may lie anywhere."""
    pip: str | None
    """The wheel that its own ensurepip holds, where pip is not installed."""


@functools.lru_cache(maxsize=64)
def image_python(environment: Environment) -> ImagePython:
    """Ask the interpreter of an image. Raises StepError when it does not answer."""
    # Packages in the user's home belong to the running interpreter's environment alone.
    options = ("-E",) if environment.here else ("-E", "-s")
    command = [str(environment.python), *options, "-c", _ASK]
    try:
        end = subprocess.run(command, capture_output=True, check=True)
        return ImagePython(**json.loads(end.stdout.splitlines()[-1]))
    except (OSError, subprocess.CalledProcessError, ValueError, LookupError) as error:
        raise StepError(
            f"the image's Python {environment.python} does not say where its packages are: {error}"
        ) from error


def make_environment(
    folder: Path, seen_at: str, image: ImagePython, below: Path | None = None
) -> Path:
    """A virtual environment in `folder`, which the job finds at `seen_at`, without packages; the
    path of its Python there.

    Behind its own packages it has those of another one that this function has made, `below`, and
    behind these the image's.
    """
    scripts, packages = folder / "bin", folder / _packages(image)
    scripts.mkdir(parents=True)
    packages.mkdir(parents=True)
    (scripts / "python").symlink_to(image.base)
    for name in ("python3", f"python{image.version}"):
        (scripts / name).symlink_to("python")
    (folder / "pyvenv.cfg").write_text(
        f"home = {Path(image.base).parent}\n"
        f"include-system-site-packages = {str(image.has_system_packages).lower()}\n"
        f"version = {image.version}\n",
        encoding="utf-8",
    )
    behind, sources = image.sites, [Path(image.scripts)]
    if below is not None:
        behind, sources = [str(below / _packages(image)), *behind], [below / "bin", *sources]
    lines = [f"import site; site.addsitedir({path!r})" for path in behind]
    lines += [] if image.pip is None else [image.pip]
    (packages / "behind.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    python = Path(seen_at, "bin/python")
    pips = dict.fromkeys(("pip", "pip3", f"pip{image.version}"), _PIP_SCRIPT)
    found = [*(each for source in sources for each in _python_scripts(source)), *pips.items()]
    for name, body in dict(reversed(found)).items():  # the first of each name
        path = scripts / name
        if not path.is_symlink():
            start = f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n"
            path.write_text(f"{start}{body}", encoding="utf-8")
            path.chmod(0o755)
    return python


def _packages(image: ImagePython) -> str:
    return f"lib/python{image.version}/site-packages"


def _python_scripts(folder: Path) -> Iterator[tuple[str, str]]:
    """The names and bodies of the scripts that a folder has for its own interpreter."""
    for path in sorted(folder.glob("*")):
        try:
            is_small = path.is_file() and path.stat().st_size <= _SCRIPT_BYTES
            text = path.read_text(encoding="utf-8") if is_small else ""
        except (OSError, UnicodeDecodeError):
            continue
        if (match := _SHEBANG.match(text)) is not None:
            yield path.name, text[match.end() :]


_REQUIREMENTS = "requirements.txt"
_PACKAGE = "setup.py"
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Wanted:
    """What pip has to do for a source."""

    arguments: tuple[str, ...]
    digest: str
    files: str


def wanted_by(source: Path | None, image: Environment) -> Wanted | None:
    """What a source needs beyond what the image's environment has; None if that is nothing."""
    if source is None:
        return None
    requirements, is_package = source / _REQUIREMENTS, (source / _PACKAGE).is_file()
    listed = requirements.is_file() and (is_package or first_unmet(requirements, image.python))
    if not is_package and not listed:
        return None
    # A line that is no plain requirement may lead to any other file of the source.
    is_plain = not is_package and not _leads_on(requirements)
    content = file_digest(requirements) if is_plain else folder_digest(source)
    digest = hashlib.sha256(f"{image.identity}\n{content}".encode()).hexdigest()[:24]
    arguments = {_PACKAGE: ["--upgrade", "."]} if is_package else {}
    arguments |= {_REQUIREMENTS: ["-r", _REQUIREMENTS]} if listed else {}
    return Wanted(("install", *chain(*arguments.values())), digest, " and ".join(arguments))


def _leads_on(requirements: Path) -> bool:
    lines = requirements.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.strip()[:1] in {"-", ".", "/"} or "/" in line.split("#")[0] for line in lines)


@contextmanager
def one_at_a_time(lock: Path, given_up: Callable[[], bool]) -> Iterator[bool]:
    """Hold a lock over processes; yields False when `given_up` says so before it is free."""
    while not given_up():
        file = try_lock(lock)
        if file is not None:
            with file:
                yield True
            return
        time.sleep(_POLL_SECONDS)
    yield False
