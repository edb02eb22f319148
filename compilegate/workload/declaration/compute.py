"""`[compute]`, `[cache]` and `[compile_cache]`: machines, time limits and caches."""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    Field,
)

from compilegate.declaration_errors import matching
from compilegate.job.contract import (
    DEFAULT_CHECKPOINT_SECONDS,
    DEFAULT_COMPILE_CACHE_MEGABYTES,
    MOST_COMPILE_CACHE_MEGABYTES,
)
from compilegate.workload.declaration.values import (
    Table,
)
from compilegate.workload.parameters import (
    InstanceType,
    RuntimeSeconds,
)


class Compute(Table):
    """`[compute]`: where jobs run on SageMaker. A local run uses this machine and records these."""

    instance_type: InstanceType = "ml.g5.xlarge"
    """Instance of training jobs, unless an arm or the execution's parameter names another."""
    processing_instance_type: InstanceType = "ml.m5.xlarge"
    """Instance of the jobs that prepare the data and that judge."""
    volume_gb: int = Field(default=50, ge=1, le=16384)
    """Disk of each job. Instances with disks of their own have none."""
    max_runtime_seconds: RuntimeSeconds = 86400
    """The limit of each training job; the service's own is 28 days."""
    processing_max_runtime_seconds: int = Field(default=14400, ge=60, le=432_000)
    """The limit of each processing job (prepare, gather, gate); the service's own is 5 days."""
    max_parallel_steps: int | None = Field(default=None, ge=1, le=200)
    """Steps that one execution runs at a time; without it the service's own default holds."""
    retry_attempts: int = Field(default=5, ge=0, le=20)
    """How often a throttled or failed call of the service is tried again; 0 leaves that to it."""
    capacity_wait_minutes: int = Field(default=240, ge=0, le=14400)
    """How long a job keeps asking for an instance that AWS has none of; where the account's quota
    forbids it, ten minutes at most. 0 fails at once."""
    checkpoint_seconds: int = Field(default=DEFAULT_CHECKPOINT_SECONDS, ge=10, le=86400)
    """Between two checkpoints of a spot arm: at most so much training is lost with a machine."""


class Cache(Table):
    """`[cache]`: how long a finished step may stand in for the same step of a later execution."""

    enabled: bool = True
    """False: every step of every execution runs."""
    expire_after: Annotated[
        str,
        matching(
            r"^P(\d+[YMWD](T\d+[HM])?|T\d+[HM])$",
            "an ISO 8601 duration such as P30D, P1DT12H or PT6H",
        ),
    ] = "P30D"
    """An ISO 8601 duration such as P30D, P1DT12H or PT6H."""


class CompileCache(Table):
    """`[compile_cache]`: whether a job starts from what an earlier one of its arm compiled."""

    enabled: bool = True
    """False: each job compiles from nothing."""
    max_megabytes: int = Field(
        default=DEFAULT_COMPILE_CACHE_MEGABYTES, ge=1, le=MOST_COMPILE_CACHE_MEGABYTES
    )
    """The limit for an arm's archives together; a larger one is neither kept nor loaded."""
