"""Definitions that were compiled before, by a digest of everything that decides them.

Compiling asks the SageMaker SDK for a second opinion where it is installed, and its import costs
seconds; an unchanged workload imports nothing of it. One folder serves every command and the CDK
app: a definition's name is what it was made from, so that checkouts and branches cannot take one
another's.

What decides a definition is found, not listed: the modules that compiling imports, by their import
statements, with the data files beside them; every package of this Python environment by its
version; and the workload, the deployment and the sources themselves.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterator
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
    """A digest of the code that compiles, the facts that it reads, and the packages around it."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(deciding_files()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}:{len(content)}:".encode() + content)
    for name in sorted(installed_packages()):
        digest.update(f"{name}\0".encode())
    return digest.hexdigest()


def deciding_files() -> set[Path]:
    """The files of this package that compiling depends on: what this module imports at any depth,
    in functions too, and the data files that lie beside those modules."""
    modules: set[Path] = set()
    waiting = list(_files_of(__name__))
    while waiting:
        path = waiting.pop()
        if path not in modules:
            modules.add(path)
            names = set(_imported(path))
            waiting += (file for name in names for file in _files_of(name))
            if "pkgutil" in names:  # it imports the packages that lie beside it, whatever they are
                waiting += path.parent.glob("*/__init__.py")
    packages = {path.parent for path in modules if path.name == "__init__.py"}
    return modules | {data for folder in packages for data in _data(folder)}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _files_of(module: str) -> tuple[Path, ...]:
    """The module's file and those of the packages that it is in, where it is one of ours."""
    first, *parts = module.split(".")
    if first != ROOT.name:
        return ()
    places = [ROOT.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
    files = (path for at in places for path in (at / "__init__.py", at.with_suffix(".py")))
    return tuple(path for path in files if path.is_file())


def _data(folder: Path) -> Iterator[Path]:
    """Files of a package that are no modules, in folders of it that are no packages too."""
    for path in folder.iterdir():
        if path.is_dir():
            if path.name != "__pycache__" and not (path / "__init__.py").exists():
                yield from _data(path)
        elif path.suffix != ".py":
            yield path


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
