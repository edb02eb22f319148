"""Scores the model that was approved last::

    python3 -m compilegate.job.launch.champion SCRIPT IN DATA OUT

``IN`` holds ``model/model.tar.gz``, or none where no model was registered yet. The archive is
unpacked, and ``SCRIPT`` (a module of the user's own) is run as if it had been started with::

    --model-dir FOLDER --data-dir DATA --output-dir OUT

It has to write the examples there (``compilegate.job.evidence.write_examples``). They become
evidence of the arm ``champion``, which the gate reads like that of any other arm; where there is no
model yet, the evidence says so.
"""

from __future__ import annotations

import runpy
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import Dict, Optional, Sequence

import numpy as np

from compilegate.job.digests import file_digest
from compilegate.job.errors import CompilegateError
from compilegate.job.evidence import Evidence, EvidenceError, Examples, Origin, write_evidence
from compilegate.job.evidence.record import SLICE
from compilegate.job.names import CHAMPION_ARM, CHAMPION_SEED, EXAMPLES_FILE, MODEL_ARCHIVE

ARCHIVE = f"model/{MODEL_ARCHIVE}"


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
    """Score the registered model, or say that there is none."""
    output.mkdir(parents=True, exist_ok=True)
    archive = registered / ARCHIVE
    if not archive.is_file():
        print("no model was registered yet")
        _write(output, Origin.ABSENT)
        return
    with tempfile.TemporaryDirectory(prefix="champion-") as folder:
        unpack(archive, Path(folder))
        _run(script, Path(folder), data, output)
    examples = _scored(output / EXAMPLES_FILE)
    _write(output, Origin.SCORED, examples, {"model": file_digest(archive)})
    (output / EXAMPLES_FILE).unlink()  # the evidence holds them
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


def _scored(path: Path) -> Examples:
    """What the script wrote a moment ago. Whether it can be trusted is the gate's question."""
    try:
        with np.load(str(path), allow_pickle=False) as stored:
            columns = {name: stored[name] for name in stored.files}
        slices = [name for name in columns if name.startswith(SLICE)]
        return Examples(
            slices={name[len(SLICE) :]: columns.pop(name) for name in slices}, **columns
        )
    except FileNotFoundError as error:
        raise ChampionError(f"the script left no {path.name}") from error
    except (ValueError, TypeError) as error:
        raise ChampionError(f"{path.name} cannot be read: {error}") from error


def _write(
    output: Path,
    origin: str,
    examples: Optional[Examples] = None,
    digests: Optional[Dict[str, str]] = None,
) -> None:
    evidence = Evidence(
        job="the registered model's evaluation",
        arm=CHAMPION_ARM,
        seed=CHAMPION_SEED,
        recipe={},
        compiler=None,
        speed=None,
        digests=digests or {},
        origin=origin,
    )
    write_evidence(output, evidence, examples=examples)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
