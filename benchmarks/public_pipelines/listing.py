"""The surveyed pipelines: what `pipelines.toml` says of each."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Pipeline:
    """One public pipeline, and what its own instructions say that it needs."""

    repository: str
    path: str
    sdk: str
    """The major version of the SDK that it is written for."""
    before: tuple[str, ...] = ()
    """Notebooks of the repository that come first."""
    build: str = ""
    """The expression that makes the pipeline, where its module does not by itself."""
    start: str = ""
    """The folder in which its instructions start it, where that is not its own."""
    outside: bool = False
    """Whether it asks for its role by variables, as outside AWS: nobody has a role there."""
    arguments: tuple[str, ...] = ()
    """What its script is called with."""
    environment: Mapping[str, str] = field(default_factory=dict)
    job_environment: Mapping[str, str] = field(default_factory=dict)
    """What its jobs get by `--env`."""
    constraints: tuple[str, ...] = ()
    """What keeps a job's own `pip install` from libraries that are too new for it."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that its source reads and the repository lacks: path -> kind of made data."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Objects that it reads: URI -> kind of made data, or `file:` and a path of the repository."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    skip: tuple[str, ...] = ()
    command: Mapping[str, str] = field(default_factory=dict)
    function: Mapping[str, str] = field(default_factory=dict)
    """Pattern of ARNs -> file of the repository."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Name of a model that is made elsewhere -> URI of an archive with inference.py in code/."""
    images: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Pattern of images -> the packages that they have and the common environment lacks."""
    note: str = ""
    """Why it cannot end, where that is the pipeline's own affair."""

    @property
    def key(self) -> str:
        """What it is called in results.json."""
        return f"{self.repository}:{self.path}"

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return re.sub(r"[^A-Za-z0-9]+", "-", self.key.removesuffix(".ipynb")).strip("-")

    @property
    def arranged(self) -> str:
        """What was given beside the repository, for the table."""
        told = [f"without `{name}`" for name in self.skip]
        told += [f"own command for `{name}`" for name in self.command]
        if any(
            not kind.startswith("file:") for kind in (*self.data.values(), *self.files.values())
        ):
            told.append("made data")
        if self.models:
            told.append("made model")
        if self.images:
            told.append("own image")
        if self.job_environment or self.constraints:
            told.append("variables")
        if self.parameters:
            told.append("parameters")
        return ", ".join(told)


def read_pipelines(path: Path = HERE / "pipelines.toml") -> list[Pipeline]:
    """All of the list, in its order."""
    with path.open("rb") as file:
        return [_pipeline(raw) for raw in tomllib.load(file)["pipelines"]]


def _pipeline(raw: Mapping[str, Any]) -> Pipeline:
    lists = {
        name: tuple(raw.get(name, ())) for name in ("before", "skip", "arguments", "constraints")
    }
    images = {pattern: tuple(names) for pattern, names in raw.get("images", {}).items()}
    return Pipeline(**{**raw, **lists, "images": images, "sdk": str(raw["sdk"])})
