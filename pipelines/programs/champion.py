"""The programs of a champion's processing steps, beside the gate's own.

python3 -m compilegate.pipelines.programs.champion open FOLDER    a note, where no model is yet
python3 -m compilegate.pipelines.programs.champion keep FROM TO    the model's archive, if approved
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from compilegate.job.files import write_text
from compilegate.job.names import MODEL_ARCHIVE

APPROVED = "Approved"
_ABOUT = """The model that was approved last lies beside this, in model/model.tar.gz, for the next
execution to be compared with. Delete that file, and the next model is registered without a
comparison.
"""
_WAITS = "WAITING.txt"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the programs; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m compilegate.pipelines.programs.champion")
    programs = parser.add_subparsers(required=True)
    note = programs.add_parser("open")
    note.add_argument("folder", type=Path)
    note.set_defaults(program=lambda options: _open(options.folder))
    keep = programs.add_parser("keep")
    keep.add_argument("source", type=Path)
    keep.add_argument("target", type=Path)
    keep.add_argument(
        "--approval", default=APPROVED, help="with which status the model was registered"
    )
    keep.set_defaults(
        program=lambda options: _keep(options.source, options.target, options.approval)
    )
    options = parser.parse_args(arguments)
    try:
        print(options.program(options))
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _open(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "ABOUT.txt", _ABOUT)
    return "the place of the registered model is there"


def _keep(source: Path, target: Path, approval: str) -> str:
    target.mkdir(parents=True, exist_ok=True)
    if approval != APPROVED:
        # The champion is the model that was approved last: whoever approves this one puts it here.
        said = f"the model that was registered last is {approval}, and so not the champion yet"
        write_text(target / _WAITS, f"{said}\n")
        return said
    shutil.copyfile(source / MODEL_ARCHIVE, target / MODEL_ARCHIVE)
    size = (target / MODEL_ARCHIVE).stat().st_size
    return f"kept {size:,} bytes for the next execution"


if __name__ == "__main__":
    sys.exit(main())
