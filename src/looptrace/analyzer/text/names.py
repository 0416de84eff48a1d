"""Texts in settings: names that people give, and what may be a secret."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

# A name is a word or a few, and no essay.
NAME_CHARS_MAX = 200

Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]

# The `extra` of a `Meta` of what may be a secret in the wrong place, so that no error quotes it.
SECRET = {"secret": True}
