"""What lies around a workload in a project: settings, the CDK app, images, CI; written to files.

Files of the workload itself must not be there yet. What a project has once is left as it is where
there is one, so that a second workload joins the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2

from compilegate.built_in import IMAGE_FOLDERS
from compilegate.init.errors import InitError
from compilegate.job.files import write_bytes
from compilegate.workload.schema import schema_text

IMAGES = ("gate", "training")
"""What jobs with `eager` and `inductor`, and the gate, run in."""
ONCE = {
    "infra/settings.toml": "settings.toml",
    "cdk.json": "cdk.json",
    "package.json": "package.json",
    "requirements.txt": "requirements.txt",
    ".gitignore": "gitignore",
    ".github/workflows/compilegate.yml": "workflow.yml",
}
"""The template of each file that a project has once."""


@dataclass(frozen=True)
class NewFile:
    """A file to be written."""

    path: str
    """In the project's folder."""
    content: bytes


@dataclass(frozen=True, kw_only=True)
class Started:
    """A workload that is about to be written."""

    name: str
    files: tuple[NewFile, ...]
    told: tuple[str, ...] = ()
    """What was decided for whoever asked, a sentence each."""
    first: tuple[str, ...] = ()
    """What has to be done by hand before it can run."""


@dataclass(frozen=True)
class WrittenFiles:
    """What became of the files."""

    written: tuple[str, ...]
    kept: tuple[str, ...]
    """Those that the folder had."""


def write_files(started: Started, folder: Path) -> WrittenFiles:
    """Write the workload's files, and those around it that are missing.

    Raises InitError, having written nothing, where a file of the workload exists.
    """
    there = [file.path for file in started.files if (folder / file.path).exists()]
    if there:
        raise InitError(
            *(
                f"{folder / path}: exists, allowed: a new name (--name), since nothing is "
                "overwritten"
                for path in there
            )
        )
    around = _around(started.name)
    kept = [file.path for file in around if (folder / file.path).exists()]
    new = [file for file in (*started.files, *around) if file.path not in kept]
    for file in new:
        write_bytes(folder / file.path, file.content)
    return WrittenFiles(tuple(file.path for file in new), tuple(kept))


def _around(name: str) -> list[NewFile]:
    values = {"name": name, "version": metadata.version("compilegate")}
    return [
        NewFile("workloads/workload.schema.json", schema_text().encode()),
        *(NewFile(path, rendered(template, **values)) for path, template in ONCE.items()),
        *_images(),
    ]


def _images() -> Iterable[NewFile]:
    for image in IMAGES:
        for path in sorted((IMAGE_FOLDERS / image).iterdir()):
            yield NewFile(f"containers/{image}/{path.name}", path.read_bytes())


def rendered(template: str, **values: Any) -> bytes:
    """A file made from its template."""
    # Other marks than jinja's own, which GitHub's workflows use.
    marks = jinja2.Environment(
        loader=jinja2.PackageLoader("compilegate.init"),
        autoescape=jinja2.select_autoescape(),
        undefined=jinja2.StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    marks.filters |= {"toml": _toml, "python": repr}
    return marks.get_template(f"{template}.jinja").render(values).encode()


def _toml(value: str) -> str:
    """A string as TOML writes it: JSON's escapes are TOML's too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def files_of(folder: Path, target: str, taken: Sequence[Path]) -> list[NewFile]:
    """Copies of files and folders that lie in `folder`, below `target`."""
    found = []
    for place in taken:
        paths = [place] if place.is_file() else sorted(place.rglob("*"))
        found += [
            NewFile(f"{target}/{path.relative_to(folder).as_posix()}", path.read_bytes())
            for path in paths
            if path.is_file() and "__pycache__" not in path.parts
        ]
    return found
