"""Managed spot: spare machines for a fraction of the price, which AWS may take back at any time.

A job that loses its machine starts again on the next one, with the same name, and goes on from its
last checkpoint. The checkpoints' key holds arm and seed, which keeps the jobs of one execution
apart, and no execution: it is part of the step cache's key, so a key of each execution's own would
train every spot arm again every time. What keeps executions apart instead is that a checkpoint
carries the name of its job, and no job takes another's.
"""

from __future__ import annotations

from typing import Any

from compilegate.pipelines.requests.checkpoint_folder import CHECKPOINTS
from compilegate.workload import Setup, Workload


def spot_members(arm: Setup) -> dict[str, Any]:
    """What a CreateTrainingJob request adds for a spot arm; nothing for another."""
    return {"EnableManagedSpotTraining": True} if arm.spot else {}


def spot_limits(arm: Setup) -> dict[str, int]:
    """How long a spot job may take in all, the waiting for machines included."""
    return {} if arm.max_wait_seconds is None else {"MaxWaitTimeInSeconds": arm.max_wait_seconds}


def spot_environment(workload: Workload, arm: Setup) -> dict[str, str]:
    """Tells the training program where to keep checkpoints, and how often."""
    if not arm.spot:
        return {}
    return {
        "COMPILEGATE_CHECKPOINTS": CHECKPOINTS,
        "COMPILEGATE_CHECKPOINT_SECONDS": str(workload.compute.checkpoint_seconds),
    }
