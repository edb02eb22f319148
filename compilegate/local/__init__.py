"""The target "here": executes any compiled SageMaker pipeline definition on this machine.

    from compilegate.local import ImageSources, LocalExecutor

    executor = LocalExecutor(
        home=Path(".compilegate"),
        images=ImageSources(root=Path("containers"), patterns=(("*/gate:*", "here"),)),
        definition=Path("definition.json").read_bytes(),
    )
    result = executor.follow(executor.start("reuters", {"Epochs": "2"}))

It reads definition JSON and nothing else of this project. No AWS account, no Docker: each job is
a process in a folder with the layout of /opt/ml, `s3://` is a folder, and the model registry is a
folder too. What it cannot run it refuses by name before anything starts.

`executor.py` starts, follows and stops; `run.py` is one execution, `checks.py` what is refused
before it; `jobs/` is a job and its process, `home/` what stays, `aws/` what a job finds of AWS.
"""

from compilegate.local.checks import explanation_lines
from compilegate.local.errors import (
    ExecutionError,
    ImageEnvironmentError,
    RefusedDefinitionError,
    RegistryError,
)
from compilegate.local.executor import LocalExecutor
from compilegate.local.home.executions import (
    execution_named,
    latest_unfinished,
    list_executions,
    pack_execution,
    prune,
)
from compilegate.local.home.images import ImageSources, first_unmet
from compilegate.local.home.object_store import ObjectStore, place_data
from compilegate.local.home.registry import (
    ModelPackage,
    describe_package,
    list_groups,
    list_packages,
    set_approval,
)
from compilegate.local.jobs.calls import Handler, parse_handler
from compilegate.local.transform import read_model

__all__ = [
    "ExecutionError",
    "Handler",
    "ImageEnvironmentError",
    "ImageSources",
    "LocalExecutor",
    "ModelPackage",
    "ObjectStore",
    "RefusedDefinitionError",
    "RegistryError",
    "describe_package",
    "execution_named",
    "explanation_lines",
    "first_unmet",
    "latest_unfinished",
    "list_executions",
    "list_groups",
    "list_packages",
    "pack_execution",
    "parse_handler",
    "place_data",
    "prune",
    "read_model",
    "set_approval",
]
