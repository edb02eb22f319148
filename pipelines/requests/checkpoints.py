"""The folder that SageMaker keeps for a training job: its checkpoints, and the compile cache.

What lies under a checkpoint URI is put into the container before the job and stored again while it
runs, so one member of the request is the whole transport, both ways, in network isolation too. A
job has one such folder; two things live in it, each in a folder of its own:

    compile-cache/    archives that fit a graph, for whichever job trains that graph next
    checkpoints/      of spot arms, by the name of the job that can go on from them

The URI is part of the step cache's key, so it holds nothing of one execution. The seeds of an arm
share it, because a graph is the arm's, and because an archive is whole whoever wrote it last. Not
so with checkpoints: each job puts back all that it found, and what it deletes is deleted for all,
while the others still write. So each job of a spot arm has a folder of its own.

It ends in a slash: SageMaker takes the URI for the beginning of keys, and `.../seed-7` is one of
`.../seed-70/` too.

Managed spot is spare machines for a fraction of the price, which AWS may take back at any time. A
job that loses its machine starts again on the next one, with the same name, and goes on from its
last checkpoint. A checkpoint carries the name of its job, and no job takes another's: that keeps
executions apart, since their jobs share the folder.
"""

from __future__ import annotations

from typing import Any

from compilegate.job.names import (
    CHECKPOINT_SECONDS_VARIABLE,
    CHECKPOINTS_VARIABLE,
    COMPILE_CACHE_VARIABLE,
)
from compilegate.pipelines.deployment import Deployment
from compilegate.workload import Arm, Workload

_FOLDER = "/opt/ml/checkpoints"
COMPILE_CACHE = f"{_FOLDER}/compile-cache"
CHECKPOINTS = f"{_FOLDER}/checkpoints"


def checkpoint_members(
    deployment: Deployment, workload: Workload, arm_name: str, arm: Arm, seed: int
) -> dict[str, Any]:
    """What a CreateTrainingJob request adds for an arm that keeps anything; nothing for another."""
    if not (arm.spot or workload.keeps_compiled(arm)):
        return {}
    whose = f"seed-{seed}" if arm.spot else "shared"
    place = deployment.uri("workloads", workload.name, "checkpoints", arm_name, whose)
    return {"CheckpointConfig": {"S3Uri": f"{place}/", "LocalPath": _FOLDER}}


def compile_cache_environment(workload: Workload, arm: Arm) -> dict[str, str]:
    """Tells the training program where the archives are."""
    return {COMPILE_CACHE_VARIABLE: COMPILE_CACHE} if workload.keeps_compiled(arm) else {}


def spot_members(arm: Arm) -> dict[str, Any]:
    """What a CreateTrainingJob request adds for a spot arm; nothing for another."""
    return {"EnableManagedSpotTraining": True} if arm.spot else {}


def spot_limits(arm: Arm) -> dict[str, int]:
    """How long a spot job may take in all, the waiting for machines included."""
    return {} if arm.max_wait_seconds is None else {"MaxWaitTimeInSeconds": arm.max_wait_seconds}


def spot_environment(workload: Workload, arm: Arm) -> dict[str, str]:
    """Tells the training program where to keep checkpoints, and how often."""
    if not arm.spot:
        return {}
    return {
        CHECKPOINTS_VARIABLE: CHECKPOINTS,
        CHECKPOINT_SECONDS_VARIABLE: str(workload.compute.checkpoint_seconds),
    }
