"""The environment variables that every job gets: built from nothing, not inherited.

A job sees what it would see in a container, plus what this machine needs to reach a network. AWS
credentials, tokens and whatever else is set in the runner's shell stay out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from compilegate.job.names import (
    COMPILE_THREADS_VARIABLE,
    INDUCTOR_CACHE_VARIABLE,
    MACHINE_VARIABLE,
    TRITON_CACHE_VARIABLE,
    VISIBLE_GPUS_VARIABLE,
)
from compilegate.local.home.images import Environment
from compilegate.local.jobs.sandbox import Sandbox

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


# How pip finds packages; what else it may be told would lead it past the job's environment.
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
    sandbox: Sandbox, environment: Environment, cores: int, machine: Mapping[str, str]
) -> dict[str, str]:
    """The variables of a job on `cores` cores; `machine` is the runner's own environment.

    The folders they name are created: the job starts with no home, no temporary files and no
    compile caches, as a fresh container does. `environment` is the job's own layer.
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
