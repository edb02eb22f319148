"""The local runner: executes any compiled SageMaker pipeline definition on this machine.

    from pipelines.local import ImageSources, run_definition

    result = run_definition(
        Path("definition.json").read_bytes(),
        home=Path(".compilegate"),
        pipeline_name="reuters",
        images=ImageSources(root=Path("containers"), patterns=(("*/gate:*", "here"),)),
    )

It reads definition JSON and nothing else of this project. No AWS account, no Docker: each job is
a process in a folder with the layout of /opt/ml, `s3://` is a folder, and the model registry is a
folder too. What it cannot run it refuses by name before anything starts.
"""

from pipelines.local.errors import (
    ExecutionError,
    ImageError,
    LocalRunError,
    RefusedDefinitionError,
    RegistryError,
)
from pipelines.local.events import (
    EnvironmentBuilding,
    Event,
    ExecutionEnded,
    ExecutionStarted,
    StepEnded,
    StepOutput,
    StepRetried,
    StepStarted,
)
from pipelines.local.images import ImageSources
from pipelines.local.journal import latest_unfinished, list_executions, read_execution
from pipelines.local.object_store import ObjectStore
from pipelines.local.progress import ExecutionStatus, StepStatus
from pipelines.local.registry import (
    ModelPackage,
    describe_package,
    list_groups,
    list_packages,
    set_approval,
)
from pipelines.local.result import ExecutionResult, StepResult
from pipelines.local.runner import run_definition
from pipelines.semantics.definition import Scalar

__all__ = [
    "EnvironmentBuilding",
    "Event",
    "ExecutionEnded",
    "ExecutionError",
    "ExecutionResult",
    "ExecutionStarted",
    "ExecutionStatus",
    "ImageError",
    "ImageSources",
    "LocalRunError",
    "ModelPackage",
    "ObjectStore",
    "RefusedDefinitionError",
    "RegistryError",
    "Scalar",
    "StepEnded",
    "StepOutput",
    "StepResult",
    "StepRetried",
    "StepStarted",
    "StepStatus",
    "describe_package",
    "latest_unfinished",
    "list_executions",
    "list_groups",
    "list_packages",
    "read_execution",
    "run_definition",
    "set_approval",
]
