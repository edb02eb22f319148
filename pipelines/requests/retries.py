"""What the service tries again by itself when a job could not be had, or broke under it."""

from __future__ import annotations

from sagemaker.mlops.workflow.retry import (
    RetryPolicy,
    SageMakerJobExceptionTypeEnum,
    SageMakerJobStepRetryPolicy,
    StepExceptionTypeEnum,
    StepRetryPolicy,
)

from compilegate.workload import Compute

CALL_INTERVAL_SECONDS = 10
FAULT_INTERVAL_SECONDS = 60
CAPACITY_INTERVAL_SECONDS = 300
CAPACITY_BACKOFF = 1.5
MOST_FAULT_ATTEMPTS = 2
"""A job that the service breaks for the third time costs more than a person's look at it."""


def job_retries(compute: Compute) -> list[RetryPolicy]:
    """The policies of every Training and Processing step.

    A job that fails by itself is not among them: the same program on the same data fails again.
    """
    policies: list[RetryPolicy] = []
    if compute.retry_attempts:
        policies += [
            StepRetryPolicy(
                [StepExceptionTypeEnum.THROTTLING, StepExceptionTypeEnum.SERVICE_FAULT],
                interval_seconds=CALL_INTERVAL_SECONDS,
                max_attempts=compute.retry_attempts,
            ),
            SageMakerJobStepRetryPolicy(
                [SageMakerJobExceptionTypeEnum.INTERNAL_ERROR],
                interval_seconds=FAULT_INTERVAL_SECONDS,
                max_attempts=min(compute.retry_attempts, MOST_FAULT_ATTEMPTS),
            ),
        ]
    if compute.capacity_wait_minutes:
        policies.append(
            SageMakerJobStepRetryPolicy(
                [
                    SageMakerJobExceptionTypeEnum.CAPACITY_ERROR,
                    SageMakerJobExceptionTypeEnum.RESOURCE_LIMIT,
                ],
                interval_seconds=CAPACITY_INTERVAL_SECONDS,
                backoff_rate=CAPACITY_BACKOFF,
                expire_after_mins=compute.capacity_wait_minutes,
            )
        )
    return policies
