"""The workload: one model that is trained again and again, declared in `workloads/NAME.toml`."""

from pipelines.workload.arm import Arm
from pipelines.workload.compilers import Neuron, TrainingCompiler
from pipelines.workload.declaration import (
    Compute,
    FilesData,
    HubData,
    HubModel,
    RandomModel,
    Recipe,
    Registry,
    ReutersData,
    Workload,
)
from pipelines.workload.errors import WorkloadError
from pipelines.workload.reading import find_workload, read_workload
from pipelines.workload.starts import NewData, Schedule
from pipelines.workload.subset import select_arms

__all__ = [
    "Arm",
    "Compute",
    "FilesData",
    "HubData",
    "HubModel",
    "Neuron",
    "NewData",
    "RandomModel",
    "Recipe",
    "Registry",
    "ReutersData",
    "Schedule",
    "TrainingCompiler",
    "Workload",
    "WorkloadError",
    "find_workload",
    "read_workload",
    "select_arms",
]
