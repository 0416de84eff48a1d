"""Settings as programs give them: an object, a file, a profile, or tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import tomlkit
from tomlkit.exceptions import TOMLKitError

from looptrace.analyzer.settings.profiles import PROFILES
from looptrace.analyzer.settings.sections import (
    FILE_NAME,
    Settings,
    default,
    load,
    of_profile,
    parsed,
)
from looptrace.analyzer.settings.toml_reader import SettingsError

# A text is the name of a profile or the path of a file; a mapping has the tables of a file.
SettingsLike: TypeAlias = Settings | str | os.PathLike[str] | Mapping[str, object]


def settings_of(given: SettingsLike | None) -> Settings:
    """Return the settings that are given; None means the defaults.

    Raises:
        SettingsError: if there is no such file or profile, or a key or a value is wrong.
    """
    if given is None:
        return default()
    if isinstance(given, Settings):
        return given
    if isinstance(given, Mapping):
        try:
            text = tomlkit.dumps(dict(given))
        except (TOMLKitError, TypeError, ValueError) as error:
            raise SettingsError(f"settings cannot be a {FILE_NAME}: {error}.") from error
        return parsed(text.encode(), "settings")
    name = os.fspath(given)
    if name in PROFILES:
        return of_profile(name)
    if not Path(name).exists():
        names = ", ".join(PROFILES)
        raise SettingsError(f"{name}: there is no such file, and no such profile ({names}).")
    return load(name)
