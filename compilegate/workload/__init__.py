"""The workload: one model that is trained again and again, declared in `workloads/NAME.toml`.

`file` holds the tables as people write them, `settling` turns them into a `Workload` (`settled`)
in which every value is known, `kinds` says what each kind of workload needs, and `feasibility` asks
the catalog whether each arm can run.
"""

from compilegate.workload.declaration.arms import AWS_IMAGE
from compilegate.workload.declaration.compute import Compute
from compilegate.workload.declaration.data import (
    FilesData,
    FolderData,
    HubData,
    ReutersData,
    WheelData,
)
from compilegate.workload.declaration.schedule import NewData, Schedule
from compilegate.workload.declaration.workload_file import WorkloadFile
from compilegate.workload.feasibility import InfeasibleError
from compilegate.workload.kinds import Kind, OwnProgram, TextClassification
from compilegate.workload.settled import Arm, Served, Workload, WorkloadError
from compilegate.workload.settling import find_workload, read_data_table, read_workload, settle

__all__ = [
    "AWS_IMAGE",
    "Arm",
    "Compute",
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
