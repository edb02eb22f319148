"""The account that a project is deployed to: `infra/settings.toml`, and the names made from it."""

from compilegate.account.settings.declaration import Settings
from compilegate.account.settings.names import Names
from compilegate.account.settings.reading import (
    SETTINGS_FILE,
    STAGE_VARIABLE,
    SettingsError,
    read_settings,
    settings_of,
)

__all__ = [
    "SETTINGS_FILE",
    "STAGE_VARIABLE",
    "Names",
    "Settings",
    "SettingsError",
    "read_settings",
    "settings_of",
]
