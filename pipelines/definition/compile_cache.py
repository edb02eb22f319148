"""What a training job is told of the compile cache."""

from __future__ import annotations

from pipelines.definition.checkpoint_folder import COMPILE_CACHE, has_compile_cache
from pipelines.workload import Arm, Workload


def compile_cache_environment(workload: Workload, arm: Arm) -> dict[str, str]:
    """Tells the training program where the archives are."""
    return {"COMPILEGATE_COMPILE_CACHE": COMPILE_CACHE} if has_compile_cache(workload, arm) else {}


def compile_cache_hyperparameters(workload: Workload, arm: Arm) -> dict[str, str]:
    """Tells it how large they may get."""
    if not has_compile_cache(workload, arm):
        return {}
    return {"compile_cache_megabytes": str(workload.compile_cache.max_megabytes)}
