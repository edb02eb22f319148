"""From a file to checked settings.

What is wrong with a settings file.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import ValidationError

from compilegate.account.settings.declaration import Settings
from compilegate.declaration_errors import sentences
from compilegate.errors import CompilegateError


class SettingsError(CompilegateError):
    """Settings cannot be used. Each problem is one sentence that names the file and the key."""


def read_settings(path: Path) -> Settings:
    """Read and check the settings; without a file they are the defaults.

    Raises SettingsError with one sentence for each thing that is wrong with them.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 text at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    try:
        return Settings.model_validate(raw)
    except ValidationError as error:
        raise SettingsError(*sentences(path, error, Settings)) from error
