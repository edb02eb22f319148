"""The workload: one model that is trained again and again, declared in `workloads/NAME.toml`."""

from compilegate.workload.arm import Arm, Neuron, TrainingCompiler
from compilegate.workload.data import FilesData, HubData, ReutersData, WheelData
from compilegate.workload.declaration import Compute, Registry, Workload
from compilegate.workload.errors import WorkloadError
from compilegate.workload.kind import Kind, TextClassification
from compilegate.workload.program import Champion, OwnProgram, Program, Succession
from compilegate.workload.reading import find_workload, read_workload
from compilegate.workload.recipe import HubModel, RandomModel, Recipe
from compilegate.workload.starts import NewData, Schedule
from compilegate.workload.subset import select_arms

__all__ = [
    "Arm",
    "Champion",
    "Compute",
    "FilesData",
    "HubData",
    "HubModel",
    "Kind",
    "Neuron",
    "NewData",
    "OwnProgram",
    "Program",
    "RandomModel",
    "Recipe",
    "Registry",
    "ReutersData",
    "Schedule",
    "Succession",
    "TextClassification",
    "TrainingCompiler",
    "WheelData",
    "Workload",
    "WorkloadError",
    "find_workload",
    "read_workload",
    "select_arms",
]
