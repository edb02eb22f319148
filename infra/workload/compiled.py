"""A workload's definition with stand-ins, compiled once and then kept.

Compiling costs the import of the SageMaker SDK, which takes longer than the rest of a synth. What
the definition depends on is digested; the same digest finds the same text, so a synth that changes
nothing imports nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from compilegate.document.writing import compact
from compilegate.errors import CompilegateError
from compilegate.job.files import write_text
from compilegate.pipelines.deployment import Network, Sources
from compilegate.pipelines.standin import standin_deployment
from compilegate.workload import Workload

CODE = (
    "compilegate/catalog",
    "pipelines",
    "compilegate/document",
    "compilegate/workload",
    "compilegate/gate/settings.py",
)
"""What turns a workload into a definition."""
PACKAGES = ("sagemaker", "sagemaker-core", "sagemaker-mlops", "botocore", "pydantic")


class CompilationError(CompilegateError):
    """The service would not take a definition."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that the text depends on, beside the code that makes it."""

    workload: Workload
    sources: Sources
    """With the assets as stand-ins."""
    images: Sequence[str]
    region: str | None
    """Whose registry AWS's own images come from; None where no arm runs in one."""
    network: Network | None
    name_prefix: str

    def digest(self, code: str) -> str:
        """sha256 in hexadecimal, together with the digest of the code."""
        parts = [code, self.workload.model_dump_json(), *self._rest()]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _rest(self) -> Iterable[str]:
        return (
            repr(self.sources),
            repr(list(self.images)),
            repr(self.region),
            repr(self.network),
            self.name_prefix,
        )


def compiled_definition(recipe: Recipe, *, project: Path, folder: Path) -> str:
    """The definition in compact JSON, with stand-ins for what only CloudFormation knows.

    Raises CompilationError when a step's request is not one that the service would take.
    """
    kept = folder / f"{recipe.digest(code_digest(project))}.json"
    try:
        return kept.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = _compile(recipe)
        write_text(kept, text)
        return text


@cache
def code_digest(project: Path) -> str:
    """Of the code that compiles and the facts that it reads, and of the packages that it calls."""
    digest = hashlib.sha256()
    for place in CODE:
        root = project / place
        for path in [root] if root.is_file() else _files(root):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(project)}:{len(content)}:".encode())
            digest.update(content)
    for package in PACKAGES:
        digest.update(f"{package}=={version(package)}\0".encode())
    return digest.hexdigest()


def _files(root: Path) -> list[Path]:
    """Modules, and the data that lies beside them."""
    found = [path for path in root.rglob("*") if path.is_file()]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def _compile(recipe: Recipe) -> str:
    from compilegate.pipelines.compilation import compile_definition  # noqa: PLC0415  takes seconds to import
    from compilegate.pipelines.requests.checks import RequestError  # noqa: PLC0415

    deployment = standin_deployment(
        images=recipe.images,
        registry_region=recipe.region,
        network=recipe.network,
        name_prefix=recipe.name_prefix,
    )
    try:
        return compact(compile_definition(recipe.workload, deployment, recipe.sources))
    except RequestError as error:
        raise CompilationError(*error.within(recipe.workload.name).problems) from error
