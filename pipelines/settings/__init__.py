"""The account that a project is deployed to: `infra/settings.toml`, and the names made from it."""

from pipelines.settings.declaration import Settings
from pipelines.settings.errors import SettingsError
from pipelines.settings.names import Names
from pipelines.settings.reading import read_settings

__all__ = ["Names", "Settings", "SettingsError", "read_settings"]
