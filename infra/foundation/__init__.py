"""What all workloads share: key, bucket, repositories, topic."""

from compilegate.infra.foundation.stack import FoundationStack

__all__ = ["FoundationStack"]
