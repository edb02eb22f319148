"""Which failures of a job are tried again, and when. Pure.

A local failure has the name of the SageMaker exception that it corresponds to (jobs/attempt.py).
Only what a step's RetryPolicies name is tried again; SageMaker's own silent retries of service
faults and throttling have no local counterpart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compilegate.document.model import RetryPolicy
from compilegate.local.jobs.attempt import (
    ALGORITHM_ERROR,
    CAPACITY_ERROR,
    CLIENT_ERROR,
    INTERNAL_ERROR,
    SERVICE_FAULT,
)

EXCEPTION_TYPES = (
    SERVICE_FAULT,
    "Step.THROTTLING",
    INTERNAL_ERROR,
    CAPACITY_ERROR,
    "SageMaker.RESOURCE_LIMIT",
    ALGORITHM_ERROR,
    CLIENT_ERROR,
)


@dataclass(frozen=True)
class RetryHistory:
    """The failed attempts of one step so far, by exception type, and its first start."""

    failures: Mapping[str, int]
    seconds_since_first_start: float


def retry_wait(
    policies: Sequence[RetryPolicy], exception_type: str, history: RetryHistory
) -> float | None:
    """Seconds to wait before the step is tried again; None when it is not.

    `history` already counts the failure at hand. The first policy that names the exception
    decides, with attempts counted over the exceptions it names.
    """
    policy = next((p for p in policies if exception_type in p.exception_types), None)
    if policy is None:
        return None
    retries = sum(history.failures.get(name, 0) for name in set(policy.exception_types)) - 1
    if policy.max_attempts is not None and retries >= policy.max_attempts:
        return None
    wait = policy.interval_seconds * policy.backoff_rate**retries
    if policy.expire_after_minutes is not None:
        if history.seconds_since_first_start + wait > policy.expire_after_minutes * 60:
            return None
    elif policy.max_attempts is None:
        return None
    return float(wait)
