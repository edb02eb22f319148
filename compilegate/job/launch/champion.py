"""Scores the model that was registered last::

    python3 -m compilegate.job.launch.champion SCRIPT IN DATA OUT

``IN`` holds ``model/model.tar.gz``, or none where no model was registered yet. The archive is
unpacked, and ``SCRIPT`` (a module of the user's own) is run as if it had been started with::

    --model-dir FOLDER --data-dir DATA --output-dir OUT

It has to write the examples there (``compilegate.job.evidence.write_examples``). What was
scored is noted beside them in ``champion.json``, which comes last.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any, Dict, Sequence

from compilegate.evidence import read_examples
from compilegate.job.digests import file_digest
from compilegate.job.errors import CompilegateError
from compilegate.job.evidence import EvidenceError, examples_digest

NOTE = "champion.json"
ARCHIVE = "model/model.tar.gz"


class ChampionError(CompilegateError):
    """The registered model cannot be scored; one sentence."""


def main(arguments: Sequence[str]) -> int:
    """Run the job; returns the exit status."""
    if len(arguments) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    script, registered, data, output = arguments
    try:
        evaluate(script, Path(registered), Path(data), Path(output))
    except (ChampionError, EvidenceError, tarfile.TarError, EOFError, OSError) as error:
        print(f"error: the registered model cannot be scored: {error}", file=sys.stderr)
        return 1
    return 0


def evaluate(script: str, registered: Path, data: Path, output: Path) -> None:
    """Score the registered model, or note that there is none."""
    output.mkdir(parents=True, exist_ok=True)
    archive = registered / ARCHIVE
    if not archive.is_file():
        print("no model was registered yet")
        _note(output, {"registered": False})
        return
    with tempfile.TemporaryDirectory(prefix="champion-") as folder:
        unpack(archive, Path(folder))
        _run(script, Path(folder), data, output)
    examples = read_examples(output)
    _note(
        output,
        {
            "registered": True,
            "archive": file_digest(archive),
            "examples": examples_digest(examples),
        },
    )
    print(f"the registered model was scored on {len(examples.ids)} examples")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack plain files and folders; raises ChampionError for anything else in the archive."""
    with tarfile.open(str(archive), "r:gz") as stored:
        for member in stored:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
                raise ChampionError(f"{archive.name}: {member.name!r} is not a plain file")
            target = folder.joinpath(*path.parts)
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            content = stored.extractfile(member)
            if content is None:
                raise ChampionError(f"{archive.name}: {member.name!r} is not a plain file")
            with content, open(target, "wb") as file:
                shutil.copyfileobj(content, file)


def _run(script: str, model: Path, data: Path, output: Path) -> None:
    given = {"--model-dir": model, "--data-dir": data, "--output-dir": output}
    sys.argv = [script, *(str(word) for pair in given.items() for word in pair)]
    runpy.run_module(script, run_name="__main__")


def _note(output: Path, content: Dict[str, Any]) -> None:
    part = output / (NOTE + ".part")
    part.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(part, output / NOTE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
