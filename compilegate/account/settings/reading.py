"""From a file to checked settings, and from them to the network of a definition."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compilegate.account.settings.declaration import Settings
from compilegate.account.settings.pins import read_pins
from compilegate.account.settings.stages import STAGE_VARIABLE, SettingsError, stages_of
from compilegate.declaration_errors import checked, parsed_toml
from compilegate.pipelines.deployment import MadeNetwork, Network

SETTINGS_FILE = Path("infra") / "settings.toml"
"""Where a project keeps its settings."""


def read_settings(path: Path) -> Settings:
    """Read and check the settings, and the digests of base images beside them; without a file they
    are the defaults.

    Raises SettingsError with one sentence for each thing that is wrong with them, LockError.
    """
    settings = Settings()
    if path.exists():
        raw = parsed_toml(path, SettingsError)
        settings = settings_of(path, raw, os.environ.get(STAGE_VARIABLE))
    pinned = {**read_pins(path), **settings.images.pinned}
    if not pinned:
        return settings
    images = settings.images.model_copy(update={"pinned": pinned})
    return settings.model_copy(update={"images": images})


def settings_of(path: Path, raw: Mapping[str, Any], stage: str | None) -> Settings:
    """What a file says for one stage; of a file with stages and without a choice, the first.

    All stages are checked, whichever is chosen. Raises SettingsError.
    """
    rest = {key: value for key, value in raw.items() if key != "stages"}
    tables = stages_of(path, raw)
    if not tables:
        if stage:
            raise SettingsError(f"{path}: there is no stage {stage!r}, and no [stages] at all")
        return checked(path, rest, Settings, SettingsError)
    if stage and stage not in tables:
        raise SettingsError(
            f"{path}: there is no stage {stage!r}, allowed: {', '.join(tables)} ({STAGE_VARIABLE})"
        )
    found = {
        name: checked(f"{path}, stage {name}", table, Settings, SettingsError)
        for name, table in tables.items()
    }
    return found[stage or next(iter(tables))]


def network_of(settings: Settings, made: MadeNetwork | None = None) -> Network | None:
    """Where a deployment's jobs run; None for SageMaker's own network, open to the internet.

    `made` is the VPC that `network.create` has made, or what stands for it; without one its jobs
    are in none.
    """
    declared = settings.network
    if declared.create and made is not None:
        return Network(
            subnets=made.subnets,
            security_group_ids=[made.security_group],
            isolation=declared.isolation,
        )
    if not declared.subnets and not declared.isolation:
        return None
    return Network(
        subnets=declared.subnets,
        security_group_ids=declared.security_groups,
        isolation=declared.isolation,
    )
