"""The settings' network as a definition names it. Pure."""

from __future__ import annotations

from compilegate.account.settings.declaration import Settings
from compilegate.pipelines.deployment import Network


def network_of(settings: Settings) -> Network | None:
    """Where a deployment's jobs run; None for SageMaker's own network, open to the internet."""
    declared = settings.network
    if not declared.subnets and not declared.isolation:
        return None
    return Network(
        subnets=declared.subnets,
        security_group_ids=declared.security_groups,
        isolation=declared.isolation,
    )
