"""Raw data: from what a workload declares to two files, training and validation.

A raw data set has an identity that is known without fetching it, so that a definition can name
where the data will lie before anyone has it. `raw_data` picks the kind; each kind is one file.
"""

from compilegate.datasets.inspection import misfits
from compilegate.datasets.raw_data import DatasetError, RawData
from compilegate.datasets.selection import cache_folder, raw_data

__all__ = ["DatasetError", "RawData", "cache_folder", "misfits", "raw_data"]
