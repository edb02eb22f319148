"""The compile cache's way from one job to the next: SageMaker's own checkpoint folder.

What lies under a checkpoint URI is put into the container before the job and stored again while it
runs, so one member of the request is the whole transport. A channel would need an object to begin
with (a channel with nothing in it fails the job), and a step after the training would be one more
job to pay for and to go wrong. It works in network isolation, and the local runner has it.

The URI is the same for every execution, because it is part of the step cache's key; and one for
each arm, because that is what a graph belongs to. All seeds of an arm share it: what one of them
leaves fits the others, and the last to end wins.
"""

from __future__ import annotations

from typing import Any

from pipelines.definition.deployment import Deployment
from pipelines.workload import Arm, Workload

FOLDER = "/opt/ml/compile-cache"


def compile_cache_members(
    deployment: Deployment, workload: Workload, arm_name: str, arm: Arm
) -> dict[str, Any]:
    """What a CreateTrainingJob request adds for an arm that compiles; nothing for another."""
    if not _has_cache(workload, arm):
        return {}
    return {
        "CheckpointConfig": {
            "S3Uri": deployment.uri("workloads", workload.name, "compile-cache", arm_name),
            "LocalPath": FOLDER,
        }
    }


def compile_cache_environment(workload: Workload, arm: Arm) -> dict[str, str]:
    """Tells the training program where the archives are."""
    return {"COMPILEGATE_COMPILE_CACHE": FOLDER} if _has_cache(workload, arm) else {}


def compile_cache_hyperparameters(workload: Workload, arm: Arm) -> dict[str, str]:
    """Tells it how large they may get."""
    if not _has_cache(workload, arm):
        return {}
    return {"compile_cache_megabytes": str(workload.compile_cache.max_megabytes)}


def _has_cache(workload: Workload, arm: Arm) -> bool:
    return workload.compile_cache.enabled and arm.compiler != "eager"
