"""The environment variables that every job gets: built from nothing, not inherited.

A job sees what it would see in a container, plus what this machine needs to reach a network. AWS
credentials, tokens and whatever else is set in the runner's shell stay out.
"""

from __future__ import annotations

import os
import site
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
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_CERT",
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


def base_environment(
    sandbox: Sandbox, environment: Environment, cores: int, machine: Mapping[str, str]
) -> dict[str, str]:
    """The variables of a job on `cores` cores; `machine` is the runner's own environment.

    The folders they name are created: the job starts with no home, no temporary files and no
    compile caches, as a fresh container does.
    """
    home = sandbox.scratch / "home"
    caches = sandbox.scratch / "cache"
    for folder in (home, caches, temporary_folder(sandbox)):
        folder.mkdir(parents=True, exist_ok=True)
    path = machine.get("PATH", os.defpath)
    variables = {
        "PATH": f"{environment.python.parent}{os.pathsep}{path}",
        "HOME": str(home),
        "LANG": machine.get("LANG", "C.UTF-8"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "XDG_CACHE_HOME": str(caches),
        INDUCTOR_CACHE_VARIABLE: str(caches / "torchinductor"),
        TRITON_CACHE_VARIABLE: str(caches / "triton"),
        "HF_HOME": machine.get("HF_HOME", str(Path.home() / ".cache" / "huggingface")),
        "TOKENIZERS_PARALLELISM": "false",
    }
    variables.update({name: str(cores) for name in _THREAD_COUNTS})
    variables.update({name: machine[name] for name in _INHERITED if name in machine})
    if environment.here and site.ENABLE_USER_SITE:
        variables["PYTHONUSERBASE"] = site.getuserbase()
    return variables


def temporary_folder(sandbox: Sandbox) -> Path:
    """Where the job's temporary files go."""
    return sandbox.scratch / "tmp"
