"""Notices what a job without a root of its own wrote to this machine's /opt/ml."""

from __future__ import annotations

import os
from pathlib import Path

from compilegate.local.errors import StepError

_FOLDER = Path("/opt/ml")


class HostFolder:
    """This machine's own /opt/ml, as it was before the job."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        self._folder = folder
        self._before = self._files()

    def check(self) -> None:
        """Raise StepError if something there is new or changed: it would be lost."""
        changed = sorted(set(self._files().items()) - set(self._before.items()))
        if changed:
            raise StepError(
                f"the program wrote to {changed[0][0]} of this machine, outside its sandbox, for "
                "it names /opt/ml itself and jobs here have no root of their own; nothing of that "
                "is stored. Let it take its folders from SM_* variables or its arguments, or run "
                "it on a machine whose kernel allows mount namespaces"
            )

    def _files(self) -> dict[str, tuple[int, int]]:
        found = {}
        for parent, folders, names in os.walk(self._folder):
            for name in (*folders, *names):
                path = os.path.join(parent, name)  # noqa: PTH118 - there may be many
                try:
                    status = os.lstat(path)
                except OSError:
                    continue
                found[path] = (status.st_mtime_ns, status.st_size)
        return found
