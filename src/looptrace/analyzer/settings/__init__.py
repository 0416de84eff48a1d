"""Settings: `looptrace.toml` as the policy for `looptrace.analyzer.analyse`.

What reads a file, its text or a variable raises `SettingsError` where it cannot be read, is not
TOML, or has a wrong key or value. The classes of sections raise `SettingError` for a wrong value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from looptrace.lazy_names import lazy_names

if TYPE_CHECKING:
    from looptrace.analyzer.settings.given import SettingsLike
    from looptrace.analyzer.settings.sections import Settings, default, load, of_profile, overridden
    from looptrace.analyzer.settings.toml_reader import SettingsError
else:  # The import is late, because the modules of this package import each other.
    _SECTIONS = ("Settings", "default", "load", "of_profile", "overridden")
    __getattr__, __dir__ = lazy_names(
        __name__,
        dict.fromkeys(_SECTIONS, f"{__name__}.sections")
        | {"SettingsError": f"{__name__}.toml_reader", "SettingsLike": f"{__name__}.given"},
    )

__all__ = [
    "Settings",
    "SettingsError",
    "SettingsLike",
    "default",
    "load",
    "of_profile",
    "overridden",
]
