"""The tags of every job, by which a bill can be split.

`compiler` says whether compilers are worth their money, the others whose money it was. A job that
works for all arms has `none` where a training job has its arm's.
"""

from __future__ import annotations

from pipelines.workload import Arm, Workload

NO_COMPILER = "eager"
NO_ARM = "none"
"""No arm is called so: a workload that declares one is refused."""


def training_tags(workload: Workload, arm_name: str, arm: Arm) -> list[dict[str, str]]:
    """Of a training job."""
    return _tags(workload, arm_name, arm.compiler, compiled=arm.compiler != NO_COMPILER)


def shared_tags(workload: Workload) -> list[dict[str, str]]:
    """Of a job that prepares for all arms, or judges them."""
    return _tags(workload, NO_ARM, compiler="none", compiled=False)


def _tags(workload: Workload, arm: str, compiler: str, *, compiled: bool) -> list[dict[str, str]]:
    tags = {
        "compilegate:workload": workload.name,
        "compilegate:arm": arm,
        "compilegate:compiler": compiler,
        "compiler": str(compiled).lower(),
    }
    return [{"Key": key, "Value": value} for key, value in tags.items()]
