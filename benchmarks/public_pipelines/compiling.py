"""Makes the definition of a public pipeline where it lies: its source runs, AWS is a stand-in."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.public_pipelines.listing import HERE, Pipeline
from benchmarks.public_pipelines.made_data import made, public_objects
from benchmarks.public_pipelines.stand_in import (
    BUCKET,
    StandIn,
    aws_variables,
    keep_objects,
    put,
    s3_client,
)

_MOST_SECONDS = 600
_LARGE = {"aws/amazon-sagemaker-examples", "aws/sagemaker-python-sdk"}
"""Large repositories: the pipeline's own folder is enough."""


def clone_of(pipeline: Pipeline, mirror: Path) -> Path:
    """The git directory of its repository, below the mirror as OWNER+NAME."""
    folder = mirror / pipeline.repository.replace("/", "+")
    folder = folder / "repo" if (folder / "repo").is_dir() else folder
    return folder / ".git" if (folder / ".git").is_dir() else folder


def commit_of(pipeline: Pipeline, mirror: Path) -> str:
    """The commit that is surveyed."""
    command = ["git", f"--git-dir={clone_of(pipeline, mirror)}", "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def compile_pipeline(
    pipeline: Pipeline, mirror: Path, folder: Path, python: str, aws: StandIn
) -> str | None:
    """Write definition.json, source and home/s3 below the folder; why not, if not."""
    source = folder / "source"
    _check_out(pipeline, clone_of(pipeline, mirror), source)
    for path, kind in pipeline.files.items():
        file = source / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_content(kind, source))
    request = folder / "request.json"
    asked = {
        "before": pipeline.before,
        "build": pipeline.build,
        "start": pipeline.start,
        "outside": pipeline.outside,
        "arguments": pipeline.arguments,
    }
    request.write_text(json.dumps(asked))
    endpoint = aws.fresh()
    client = s3_client(endpoint)
    put(client, f"s3://{BUCKET}", b"")
    for uri, content in public_objects():
        put(client, uri, content)
    for uri, kind in pipeline.data.items():
        put(client, uri, _content(kind, source))
    program = str((HERE / "capture.py").resolve())
    try:
        ended = subprocess.run(
            [python, program, str(source), pipeline.path, str(folder / "definition.json")],
            env={**aws_variables(endpoint), **pipeline.environment},
            input=request.read_text(),
            capture_output=True,
            text=True,
            timeout=_MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the source has not ended in {_MOST_SECONDS} s"
    (folder / "compile.log").write_text(ended.stdout + ended.stderr)
    if not (folder / "definition.json").is_file():
        return (ended.stderr.strip().splitlines() or ["nothing was said"])[-1]
    keep_objects(client, folder / "home" / "s3")
    return None


def _content(kind: str, source: Path) -> bytes:
    path = kind.removeprefix("file:")
    return made(kind) if path == kind else (source / path).read_bytes()


def step_types(definition: Path) -> list[str]:
    """The types of its steps, each once, in their order."""

    def walk(steps: Sequence[Any]) -> Iterator[str]:
        for step in steps:
            yield step["Type"]
            for side in ("IfSteps", "ElseSteps"):
                yield from walk(step.get("Arguments", {}).get(side, []))

    return list(dict.fromkeys(walk(json.loads(definition.read_bytes())["Steps"])))


def _check_out(pipeline: Pipeline, clone: Path, target: Path) -> None:
    top, _, rest = pipeline.path.partition("/")
    folder = str(Path(pipeline.path).parent)
    small = [folder] if folder != "." else []
    wanted = small if pipeline.repository in _LARGE else []
    if not _archive(clone, target, wanted) and rest:
        _archive(clone, target, [top])  # a snapshot may lack a large object elsewhere


def _archive(clone: Path, target: Path, where: Sequence[str]) -> bool:
    """Unpack these paths of the newest commit; whether all were there."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with subprocess.Popen(
        ["git", f"--git-dir={clone}", "archive", "HEAD", *where], stdout=subprocess.PIPE
    ) as archive:
        subprocess.run(["tar", "-x", "-C", str(target)], stdin=archive.stdout, check=False)
    return archive.returncode == 0
