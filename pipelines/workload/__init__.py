"""The workload: one model that is trained again and again, declared in `workloads/NAME.toml`."""

from pipelines.workload.arm import Arm
from pipelines.workload.compilers import Neuron, TrainingCompiler
from pipelines.workload.data import FilesData, HubData, ReutersData
from pipelines.workload.declaration import Compute, Registry, Workload
from pipelines.workload.errors import WorkloadError
from pipelines.workload.kind import Kind, TextClassification
from pipelines.workload.program import Champion, OwnProgram, Program, Succession
from pipelines.workload.reading import find_workload, read_workload
from pipelines.workload.recipe import HubModel, RandomModel, Recipe
from pipelines.workload.starts import NewData, Schedule
from pipelines.workload.subset import select_arms
from pipelines.workload.wheel_data import WheelData

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
