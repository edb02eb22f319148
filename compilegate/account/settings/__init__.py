"""The account that a project is deployed to: `infra/settings.toml`, and the names made from it."""

from compilegate.account.settings.declaration import Settings
from compilegate.account.settings.names import Names
from compilegate.account.settings.reading import SETTINGS_FILE, SettingsError, read_settings

__all__ = ["SETTINGS_FILE", "Names", "Settings", "SettingsError", "read_settings"]
