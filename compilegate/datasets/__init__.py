"""Raw data: where it comes from (`sources`), and whether it fits its declaration (`inspection`)."""

from compilegate.datasets.inspection import misfits
from compilegate.datasets.sources import (
    Announce,
    DatasetError,
    Declared,
    LocalFiles,
    RawData,
    ReutersR8,
    cache_folder,
    raw_data,
)

__all__ = [
    "Announce",
    "DatasetError",
    "Declared",
    "LocalFiles",
    "RawData",
    "ReutersR8",
    "cache_folder",
    "misfits",
    "raw_data",
]
