"""From a file to checked settings, and from them to the network of a definition."""

from __future__ import annotations

from pathlib import Path

from compilegate.account.settings.declaration import Settings
from compilegate.declaration_errors import read_toml
from compilegate.errors import CompilegateError
from compilegate.pipelines.deployment import Network

SETTINGS_FILE = Path("infra") / "settings.toml"
"""Where a project keeps its settings."""


class SettingsError(CompilegateError):
    """Settings cannot be used. Each problem is one sentence that names the file and the key."""


def read_settings(path: Path) -> Settings:
    """Read and check the settings; without a file they are the defaults.

    Raises SettingsError with one sentence for each thing that is wrong with them.
    """
    return read_toml(path, Settings, SettingsError) if path.exists() else Settings()


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
