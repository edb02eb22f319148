"""Raw data in files beside the workload."""

from __future__ import annotations

from pathlib import Path

from compilegate.datasets.raw_data import TWO_SPLITS, Announce, DatasetError, identity_of, sha256_of


class LocalFiles:
    """Two files that are there already; their content is their identity."""

    def __init__(self, *, train: Path, validation: Path) -> None:
        self._files = {"train": train, "validation": validation}
        for key, path in self._files.items():
            if not path.is_file():
                raise DatasetError(
                    f"data.{key}: {path} is not a file, allowed: a file, "
                    "with a path relative to the workload's own file"
                )

    @property
    def identity(self) -> str:
        return identity_of(*(sha256_of(path) for path in self._files.values()))

    @property
    def parts(self) -> frozenset[str]:
        return TWO_SPLITS

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        return {f"{key}{path.suffix}": path for key, path in self._files.items()}
