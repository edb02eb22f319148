"""Definitions that were compiled before, by a digest of everything that decides them.

Compiling asks the SageMaker SDK for a second opinion where it is installed, and its import costs
seconds; an unchanged workload imports nothing of it. One folder serves every command and the CDK
app: a definition's name is what it was made from, so that checkouts and branches cannot take one
another's.

What decides a definition: every file of this package, every package of this Python environment by
its version, and the workload, the deployment and the sources themselves. To follow the imports of
what compiles took longer than to read all files.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path

from compilegate.job.files import write_text
from compilegate.pipelines.deployment import Deployment, Sources
from compilegate.workload import Workload

SDK_EXTRA = "pip install 'compilegate[sdk]'"
ROOT = Path(__file__).parents[1]
"""The package `compilegate`, which reaches this file by a link."""


def definition_of(
    workload: Workload,
    deployment: Deployment,
    sources: Sources,
    *,
    folder: Path,
    told: Callable[[str], None],
) -> str:
    """The definition in indented JSON, from `folder` or compiled now and put there.

    `told` gets a line before anything that takes long. Raises InvalidRequestError when a step's
    request is not one that the service would take, SdkError when the SDK would write something
    else.
    """
    digest = _sha256(code_digest(), repr(workload), repr(deployment), repr(sources))
    path = folder / f"{digest}.json"
    found = _read(path)
    if found is not None:
        return found
    asked = _sdk_is_here()
    told(
        f"compiling {workload.name}"
        + (
            ""
            if asked
            else f" without the SageMaker SDK's second opinion ({SDK_EXTRA} installs it)"
        )
    )
    text = _compile(workload, deployment, sources, second_opinion=asked)
    try:
        write_text(path, f"{_sha256(text)}\n{text}")
    except OSError:
        told(f"cannot write to {folder}: {workload.name} will be compiled again next time")
    return text


def _read(path: Path) -> str | None:
    """The text that was kept; None where there is none, or what is there is damaged."""
    try:
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return text if digest == _sha256(text) else None


def _compile(
    workload: Workload, deployment: Deployment, sources: Sources, *, second_opinion: bool
) -> str:
    from compilegate.document.writing import write_definition  # noqa: PLC0415  only where needed
    from compilegate.pipelines.compilation import compile_document  # noqa: PLC0415

    definition = compile_document(workload, deployment, sources)
    if second_opinion:
        from compilegate.pipelines.sdk import check_against_sdk  # noqa: PLC0415  takes seconds

        check_against_sdk(definition)
    return write_definition(definition)


def _sdk_is_here() -> bool:
    """Whether the SDK of the version that this program knows is installed."""
    try:
        return metadata.version("sagemaker").startswith("3.")
    except metadata.PackageNotFoundError:
        return False


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def code_digest() -> str:
    """A digest of this package's code and facts, and of the packages around it."""
    digest = hashlib.sha256(sys.version.encode())
    for at, folders, names in os.walk(ROOT, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for path in (Path(at, name) for name in sorted(names)):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(ROOT)}:{len(content)}:".encode() + content)
    for name in sorted(installed_packages()):
        digest.update(f"{name}\0".encode())
    return digest.hexdigest()


def installed_packages() -> set[str]:
    """Name and version of all packages of this Python environment, as their folders are called.

    All, since what compiling imports imports others; upgrading an unrelated one only costs a
    compilation.
    """
    folders = [Path(place) for place in sys.path]
    return {
        path.name
        for folder in folders
        if folder.is_dir()
        for path in folder.iterdir()
        if path.suffix in {".dist-info", ".egg-info"}
    }
