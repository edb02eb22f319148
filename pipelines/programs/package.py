"""The program of the step before registration: a model's archive, where it stays.

    python3 -m compilegate.pipelines.programs.package MODEL TARGET [--code ARCHIVE]

What training jobs write expires; what is registered must not. With `--code` the files of that
archive go into `code/` of the model's, where inference images look for a handler.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from compilegate.job.contract import MODEL_ARCHIVE
from compilegate.job.files import whole_file

CODE = "code/"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m compilegate.pipelines.programs.package")
    parser.add_argument("model", type=Path, help="the folder of the trained model's archive")
    parser.add_argument("target", type=Path, help="the folder of the registered one")
    parser.add_argument("--code", type=Path, help="what goes into the archive's code/")
    options = parser.parse_args(arguments)
    target = options.target / MODEL_ARCHIVE
    try:
        options.target.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as part:
            if options.code is None:
                shutil.copyfile(options.model / MODEL_ARCHIVE, part)
            else:
                _pack(options.model / MODEL_ARCHIVE, options.code, part)
    except (OSError, EOFError, tarfile.TarError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"kept {target.stat().st_size:,} bytes")
    return 0


def _pack(model: Path, code: Path, target: Path) -> None:
    """One archive of both. What training left in `code/` would be executed unseen, so it stays
    behind."""
    # Weights hardly get smaller: the least compression is quick, and an image unpacks any.
    with (
        tarfile.open(model) as trained,
        tarfile.open(code) as handler,
        tarfile.open(target, "w:gz", compresslevel=1) as packed,
    ):
        for member in trained:
            name = member.name.removeprefix("./")
            if name and name != "." and not f"{name}/".startswith(CODE):
                _add(packed, trained, member, name)
        for member in handler:
            if member.isfile():
                _add(packed, handler, member, CODE + member.name)


def _add(
    packed: tarfile.TarFile, source: tarfile.TarFile, member: tarfile.TarInfo, name: str
) -> None:
    member.name = name
    packed.addfile(member, source.extractfile(member) if member.isfile() else None)


if __name__ == "__main__":
    sys.exit(main())
