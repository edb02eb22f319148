"""What an execution was asked to carry out, in its folder: HOME/executions/ID/selection.json.

And the files that --stub names.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from compilegate.document.reading import refuse_constant
from compilegate.job.files import write_json
from compilegate.local.errors import ExecutionError
from compilegate.local.selection.choosing import ALL_STEPS, Selection, Stub

_FILE = "selection.json"


def write_selection(folder: Path, selection: Selection) -> None:
    """Keep it for whoever carries the execution out; nothing where every step is."""
    if selection != ALL_STEPS:
        write_json(folder / _FILE, asdict(selection))


def read_selection(folder: Path) -> Selection:
    """What was asked for. Raises ExecutionError where the file is damaged."""
    path = folder / _FILE
    if not path.is_file():
        return ALL_STEPS
    try:
        raw = json.loads(path.read_bytes())
        return Selection(
            until=tuple(raw["until"]),
            skip=tuple(raw["skip"]),
            stubs=dict(raw["stubs"]),
            register_from_stubs=bool(raw["register_from_stubs"]),
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ExecutionError(f"{path} cannot be read: {error!r}") from error


def read_stub(step: str, path: Path) -> Stub:
    """What a file says that a step has given. Raises ExecutionError."""
    try:
        found = json.loads(path.read_bytes(), parse_constant=refuse_constant)
    except (OSError, ValueError, RecursionError) as error:
        raise ExecutionError(f"--stub {step}: {path} cannot be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise ExecutionError(
            f"--stub {step}: {path} holds {found!r:.60}, expected an object with the members that "
            'the step gives, such as {"ModelArtifacts": {"S3ModelArtifacts": "s3://..."}}'
        )
    return found
