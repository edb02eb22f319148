"""Raw data from the Hugging Face hub, or from a folder that its library reads."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from compilegate.datasets.raw_data import Announce, DatasetError, are_two_splits, identity_of


@dataclass(frozen=True, kw_only=True)
class HubDataset:
    """Two splits of one data set. Its identity is its name and revision, not its content."""

    dataset: str
    configuration: str | None
    revision: str
    train_split: str
    validation_split: str

    @property
    def identity(self) -> str:
        return identity_of(
            "hub",
            self.dataset,
            self.configuration or "",
            self.revision,
            self.train_split,
            self.validation_split,
        )

    def is_whole(self, names: AbstractSet[str]) -> bool:
        return are_two_splits(names)

    def fetch(self, cache: Path, announce: Announce) -> dict[str, Path]:
        folder = cache / "hub" / self.identity
        files = {name: folder / name for name in ("train.parquet", "validation.parquet")}
        if all(path.is_file() for path in files.values()):
            return files
        announce(f"fetching data set {self.dataset} at {self.revision} into {folder}")
        self._download(folder)
        return files

    def _download(self, folder: Path) -> None:
        try:
            from datasets import load_dataset  # noqa: PLC0415  an optional extra, slow to import
        except ImportError as error:
            raise DatasetError(
                f"data set {self.dataset} needs the package `datasets`: "
                "pip install 'compilegate[hub]'"
            ) from error
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".part-"))
        try:
            for name, split in (
                ("train", self.train_split),
                ("validation", self.validation_split),
            ):
                rows = load_dataset(
                    self.dataset,
                    name=self.configuration,
                    split=split,
                    revision=None if Path(self.dataset).is_dir() else self.revision,
                )
                rows.to_parquet(work / f"{name}.parquet")
            shutil.rmtree(folder, ignore_errors=True)
            work.replace(folder)
        except Exception as error:  # the library raises dozens of unrelated types
            raise DatasetError(
                f"data set {self.dataset} at {self.revision} could not be fetched "
                f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}); "
                f"connect to the hub once, or put train.parquet and validation.parquet into "
                f"{folder}"
            ) from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
