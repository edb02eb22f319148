"""The programs that keep the evidence of the registered model for the next execution's gate.

python3 -m compilegate.pipelines.programs.registered open FOLDER    a note, where nothing is yet
python3 -m compilegate.pipelines.programs.registered keep FROM TO    the evidence's archive
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from compilegate.job.contract import OUTPUT_ARCHIVE, REGISTRATION_FILE
from compilegate.job.files import whole_file, write_text

_ABOUT = f"""The evidence of the model that was registered last lies beside this folder, in
evidence/{OUTPUT_ARCHIVE}: the gate compares the next model with it. Delete that file, and the next
model is registered without a comparison.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the programs; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m compilegate.pipelines.programs.registered")
    programs = parser.add_subparsers(required=True)
    note = programs.add_parser("open")
    note.add_argument("folder", type=Path)
    note.set_defaults(program=lambda options: _open(options.folder))
    keep = programs.add_parser("keep")
    keep.add_argument("source", type=Path)
    keep.add_argument("target", type=Path)
    keep.add_argument("--registration", default="", help="digest of how the model was registered")
    keep.set_defaults(program=lambda it: _keep(it.source, it.target, it.registration))
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
    return "the place of the registered model's evidence is there"


def _keep(source: Path, target: Path, registration: str) -> str:
    target.mkdir(parents=True, exist_ok=True)
    with whole_file(target / OUTPUT_ARCHIVE) as part:
        shutil.copyfile(source / OUTPUT_ARCHIVE, part)
    write_text(target / REGISTRATION_FILE, registration)
    return f"kept {(target / OUTPUT_ARCHIVE).stat().st_size:,} bytes for the next execution's gate"


if __name__ == "__main__":
    sys.exit(main())
