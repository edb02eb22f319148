"""What the service tries again by itself when a job could not be had, or broke under it."""

from __future__ import annotations

from compilegate.document.model import RetryPolicy
from compilegate.workload import Compute

CALL_INTERVAL_SECONDS = 10
FAULT_INTERVAL_SECONDS = 60
QUOTA_INTERVAL_SECONDS = 60
QUOTA_WAIT_MINUTES = 10
"""Instances count for a while after their job has ended; a quota that is too low stays so."""
CAPACITY_INTERVAL_SECONDS = 300
CAPACITY_BACKOFF = 1.5
MOST_FAULT_ATTEMPTS = 2
"""A job that the service breaks for the third time costs more than a person's look at it."""


def job_retries(compute: Compute) -> tuple[RetryPolicy, ...]:
    """The policies of every Training and Processing step.

    A job that fails by itself is not among them: the same program on the same data fails again.
    """
    faults = (
        RetryPolicy(
            ("Step.THROTTLING", "Step.SERVICE_FAULT"),
            interval_seconds=CALL_INTERVAL_SECONDS,
            max_attempts=compute.retry_attempts,
        ),
        RetryPolicy(
            ("SageMaker.JOB_INTERNAL_ERROR",),
            interval_seconds=FAULT_INTERVAL_SECONDS,
            max_attempts=min(compute.retry_attempts, MOST_FAULT_ATTEMPTS),
        ),
    )
    instances = (
        RetryPolicy(
            ("SageMaker.RESOURCE_LIMIT",),
            interval_seconds=QUOTA_INTERVAL_SECONDS,
            backoff_rate=1.0,
            expire_after_minutes=min(compute.capacity_wait_minutes, QUOTA_WAIT_MINUTES),
        ),
        RetryPolicy(
            ("SageMaker.CAPACITY_ERROR",),
            interval_seconds=CAPACITY_INTERVAL_SECONDS,
            backoff_rate=CAPACITY_BACKOFF,
            expire_after_minutes=compute.capacity_wait_minutes,
        ),
    )
    return (
        *(faults if compute.retry_attempts else ()),
        *(instances if compute.capacity_wait_minutes else ()),
    )
