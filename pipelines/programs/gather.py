"""Gather evidence under one key: `python3 -m compilegate.pipelines.programs.gather FROM TO`.

A processing job takes ten inputs at most. Where an execution has more evidence than that, these
jobs each copy some of it, as it is, into one output that the gate then takes as one input.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Copy every file below FROM to the same place below TO."""
    if len(arguments) != 2:
        print("usage: python3 -m compilegate.pipelines.programs.gather FROM TO", file=sys.stderr)
        return 2
    source, target = (Path(argument) for argument in arguments)
    if not source.is_dir():
        print(f"{source} is not a folder, expected the evidence to gather", file=sys.stderr)
        return 2
    shutil.copytree(source, target, dirs_exist_ok=True)
    print(f"gathered {sum(path.is_file() for path in target.rglob('*'))} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
