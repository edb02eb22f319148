"""The `[compute]` table: machines, disks, time limits and retries of a workload's jobs."""

from __future__ import annotations

from pydantic import Field

from compilegate.job.names import DEFAULT_CHECKPOINT_SECONDS
from compilegate.workload.declared.table import Table
from compilegate.workload.parameters import InstanceType, RuntimeSeconds


class Compute(Table):
    """`[compute]`: where jobs run on SageMaker. A local run uses this machine and records these."""

    instance_type: InstanceType = "ml.g5.xlarge"
    """For training jobs, unless an arm or the execution's parameter says otherwise."""
    processing_instance_type: InstanceType = "ml.m5.xlarge"
    """For the jobs that prepare the data and that judge."""
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
    """How long a job keeps asking for an instance that AWS has none of, or that the account's quota
    forbids just now; 0 fails at once."""
    checkpoint_seconds: int = Field(default=DEFAULT_CHECKPOINT_SECONDS, ge=10, le=86400)
    """Between two checkpoints of a spot arm: at most so much training is lost with a machine."""
