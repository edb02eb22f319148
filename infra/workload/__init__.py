"""One workload in the account: pipeline, registry, schedule, alarms, notifier."""

from compilegate.infra.workload.stack import WorkloadStack

__all__ = ["WorkloadStack"]
