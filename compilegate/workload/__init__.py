"""The workload: one model that is trained again and again, declared in `workloads/NAME.toml`.

`file` holds the tables as people write them, `settling` turns them into a `Workload` (`settled`)
in which every value is known, `kinds` says what each kind of workload needs, and `feasibility` asks
the catalog whether each arm can run.
"""

from compilegate.workload.declaration import (
    AWS_IMAGE,
    Compute,
    FilesData,
    FolderData,
    HubData,
    NewData,
    ReutersData,
    Schedule,
    WheelData,
    WorkloadFile,
)
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
