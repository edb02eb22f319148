"""What the hosts of a job leave in a folder that each of them has, in the first one's."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path


def gather(into: Path, others: Sequence[tuple[str, Path]]) -> Iterator[str]:
    """Move the files of the others' folders to `into`.

    Yields a sentence for each file that stays where it is, because another one has its name.
    """
    for host, folder in others:
        for parent, _, names in os.walk(folder):
            for name in sorted(names):
                source = Path(parent) / name
                target = into / source.relative_to(folder)
                if not os.path.lexists(target):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.move(source, target)
                elif not _same(source, target):
                    yield (
                        f"{host} wrote another {target.relative_to(into)} than the hosts before "
                        f"it, whose file is stored; its own stays at {source}"
                    )


def _same(one: Path, other: Path) -> bool:
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and one.readlink() == other.readlink()
    return one.is_file() and other.is_file() and filecmp.cmp(one, other, shallow=False)
