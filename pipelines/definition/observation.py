"""SageMaker's profiler and debugger in a training request: off unless an arm turns them on."""

from __future__ import annotations

from typing import Any

from pipelines.definition.deployment import Deployment
from pipelines.workload import Arm, Workload


def observation_members(deployment: Deployment, workload: Workload, arm: Arm) -> dict[str, Any]:
    """Both slow the very steps that are timed, so that what is not asked for is turned off, where
    the service would turn it on by itself."""
    output = deployment.uri("workloads", workload.name, "training")
    profiler: dict[str, Any] = {"DisableProfiler": not arm.profiler}
    members = {"ProfilerConfig": profiler}
    if arm.profiler:
        profiler["S3OutputPath"] = output
    if arm.debugger:
        members["DebugHookConfig"] = {"S3OutputPath": output, "CollectionConfigurations": []}
    return members
