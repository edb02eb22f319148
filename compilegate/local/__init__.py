"""The local runner: executes any compiled SageMaker pipeline definition on this machine.

    from compilegate.local import ImageSources, run_definition

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

from compilegate.document.model import Scalar
from compilegate.execution.events import (
    EnvironmentBuilding,
    Event,
    ExecutionEnded,
    ExecutionStarted,
    StepEnded,
    StepOutput,
    StepRetried,
    StepStarted,
)
from compilegate.execution.result import ExecutionResult, StepResult
from compilegate.local.engine.progress import ExecutionStatus, StepStatus
from compilegate.local.engine.runner import run_definition
from compilegate.local.errors import (
    ExecutionError,
    ImageError,
    LocalRunError,
    RefusedDefinitionError,
    RegistryError,
)
from compilegate.local.home.images import ImageSources
from compilegate.local.home.journal import latest_unfinished, list_executions, read_execution
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.home.registry import (
    ModelPackage,
    describe_package,
    list_groups,
    list_packages,
    set_approval,
)

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
