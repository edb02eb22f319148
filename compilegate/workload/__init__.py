"""The workload: one model that is trained again and again, declared in `workloads/NAME.toml`.

`declared/` holds the tables as people write them, `settling` turns them into a `Workload` in which
every value is known, and `kinds/` says what each kind of workload needs.
"""

from compilegate.workload.arms import Arm
from compilegate.workload.declared.arm import AWS_IMAGE
from compilegate.workload.declared.compute import Compute
from compilegate.workload.declared.data import (
    FilesData,
    FolderData,
    HubData,
    ReutersData,
    WheelData,
)
from compilegate.workload.declared.file import WorkloadFile
from compilegate.workload.declared.known.advice import Advice
from compilegate.workload.declared.stacks import Stack
from compilegate.workload.declared.starts import NewData, Schedule
from compilegate.workload.errors import InfeasibleError, WorkloadError
from compilegate.workload.kinds import (
    KINDS,
    DocumentShapes,
    Kind,
    OwnProgram,
    TextClassification,
)
from compilegate.workload.reading import find_workload, read_data_table, read_workload
from compilegate.workload.serving import Served
from compilegate.workload.settled import Workload
from compilegate.workload.settling import settle

__all__ = [
    "AWS_IMAGE",
    "KINDS",
    "Advice",
    "Arm",
    "Compute",
    "DocumentShapes",
    "FilesData",
    "FolderData",
    "HubData",
    "InfeasibleError",
    "Kind",
    "NewData",
    "OwnProgram",
    "ReutersData",
    "Schedule",
    "Served",
    "Stack",
    "TextClassification",
    "WheelData",
    "Workload",
    "WorkloadError",
    "WorkloadFile",
    "find_workload",
    "read_data_table",
    "read_workload",
    "settle",
]
