"""From approval to production: what EventBridge does once a person has approved a model."""

from compilegate.infra.workload.release.releaser import Release

__all__ = ["Release"]
